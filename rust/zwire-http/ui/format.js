// Values and numbers as text. Everything here may come from strangers: it becomes text, never markup.

/** Octets of which a preview is made. */
const PREVIEW = 160;
/** Octets that are shown as text, and as hexadecimal digits. */
const TEXT = 64 * 1024;
const HEX = 4096;
/** Octets of JSON that are parsed to be shown in lines. */
const JSON_MOST = 256 * 1024;
/** Largest image that is shown: octets, and points. */
const IMAGE = 8 << 20;
const POINTS = 64 << 20;
/** Levels of JSON that are indented. */
const DEEP = 16;

const strict = new TextDecoder("utf-8", { fatal: true });
const loose = new TextDecoder("utf-8");
const NUMBER = /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i;
// Control characters, and those that turn the direction of text around.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const BREAKS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** A text whose hidden characters are visible. */
export function clean(text) {
  return text.replace(HIDDEN, "\u00b7");
}

/** The same on one line, of a bounded length. */
export function line(text, most = PREVIEW) {
  const cut = text.length > most ? `${text.slice(0, most)}\u2026` : text;
  return clean(cut.replace(BREAKS, " "));
}

const UNITS = ["", "k", "M", "G", "T", "P"];

/** A number with three digits and a unit. */
export function short(number) {
  if (!Number.isFinite(number)) return "\u2013";
  let value = Math.abs(number), unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) { value /= 1000; unit += 1; }
  const digits = value >= 99.95 || Number.isInteger(value) ? 0 : value >= 9.995 ? 1 : 2;
  const text = value.toFixed(digits);
  return `${number < 0 ? "-" : ""}${digits > 0 ? text.replace(/\.?0+$/, "") : text}${UNITS[unit] ? ` ${UNITS[unit]}` : ""}`;
}

export function bytes(number) {
  const text = short(number);
  return /[a-zA-Z]$/.test(text) ? `${text}B` : `${text} B`;
}

export function count(number) {
  return number.toLocaleString("en");
}

/** Text of octets, or undefined if they are none. */
export function textOf(octets) {
  try {
    return strict.decode(octets);
  } catch {
    return undefined;
  }
}

/** Media type of an encoding, without its schema. */
function mediaOf(encoding) {
  const cut = encoding.indexOf(";");
  return (cut < 0 ? encoding : encoding.slice(0, cut)).toLowerCase();
}

/** Number that a payload is, or NaN. */
export function numberOf(octets, encoding) {
  if (octets.length === 0 || octets.length > 32) return NaN;
  const media = mediaOf(encoding);
  if (media.startsWith("image/")) return NaN;
  const text = textOf(octets);
  return text !== undefined && NUMBER.test(text) ? Number(text) : NaN;
}

const starts = (octets, ...first) => first.every((octet, at) => octets[at] === octet);

/** Media type of an image that is shown, or undefined. SVG is none: it is a document. */
export function imageOf(octets, encoding) {
  if (starts(octets, 0x89, 0x50, 0x4e, 0x47)) return "image/png";
  if (starts(octets, 0xff, 0xd8, 0xff)) return "image/jpeg";
  if (starts(octets, 0x47, 0x49, 0x46, 0x38)) return "image/gif";
  if (starts(octets, 0x52, 0x49, 0x46, 0x46) && starts(octets.subarray(8), 0x57, 0x45, 0x42, 0x50)) return "image/webp";
  if (starts(octets, 0x42, 0x4d) && mediaOf(encoding) === "image/bmp") return "image/bmp";
  return undefined;
}

/** Whether an image may be decoded: a small file may hold more points than memory. */
export function isShowable(octets, media) {
  if (octets.length > IMAGE) return false;
  const view = new DataView(octets.buffer, octets.byteOffset, octets.byteLength);
  if (media === "image/png" && octets.length >= 24) return view.getUint32(16) * view.getUint32(20) <= POINTS;
  if (media === "image/gif" && octets.length >= 10) return view.getUint16(6, true) * view.getUint16(8, true) <= POINTS;
  if (media === "image/jpeg") return pointsOfJpeg(octets, view) <= POINTS;
  if (media === "image/webp" && octets.length >= 30) return pointsOfWebp(octets, view) <= POINTS;
  if (media === "image/bmp" && octets.length >= 26) {
    if (view.getUint32(14, true) < 40) return view.getUint16(18, true) * view.getUint16(20, true) <= POINTS;
    return Math.abs(view.getInt32(18, true) * view.getInt32(22, true)) <= POINTS;
  }
  return false;
}

/** Points of the first frame of a JPEG file (ITU-T T.81 B.2.2); infinitely many if it names none. */
function pointsOfJpeg(octets, view) {
  let at = 2;
  while (at + 9 <= octets.length) {
    const marker = octets[at + 1];
    if (octets[at] !== 0xff) return Infinity;
    if (marker === 0xff) at += 1;
    else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) at += 2;
    else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return view.getUint16(at + 5) * view.getUint16(at + 7) || Infinity;
    } else at += 2 + view.getUint16(at + 2);
  }
  return Infinity;
}

/** Points of a WebP file (RFC 9649); infinitely many if it names none. */
function pointsOfWebp(octets, view) {
  const chunk = String.fromCharCode(...octets.subarray(12, 16));
  if (chunk === "VP8 ") return (view.getUint16(26, true) & 0x3fff) * (view.getUint16(28, true) & 0x3fff) || Infinity;
  if (chunk === "VP8L") {
    const bits = view.getUint32(21, true);
    return ((bits & 0x3fff) + 1) * (((bits >>> 14) & 0x3fff) + 1);
  }
  if (chunk !== "VP8X") return Infinity;
  const side = (at) => view.getUint16(at, true) + 0x10000 * octets[at + 2] + 1;
  return side(24) * side(27);
}

/** JSON value of octets, or undefined. A text or a bare word is one only if the encoding says so. */
export function jsonOf(octets, encoding) {
  if (octets.length === 0 || octets.length > JSON_MOST) return undefined;
  const says = /(^|[/+])json5?$/.test(mediaOf(encoding));
  const first = octets.find((octet) => octet > 0x20);
  if (!says && first !== 0x7b && first !== 0x5b) return undefined;
  const text = textOf(octets);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function digits(octets) {
  let text = "";
  for (const octet of octets) text += `${octet.toString(16).padStart(2, "0")} `;
  return text;
}

/** Octets as hexadecimal digits beside their ASCII. */
function dump(octets) {
  const lines = [];
  for (let at = 0; at < Math.min(octets.length, HEX); at += 16) {
    const part = octets.subarray(at, Math.min(at + 16, HEX));
    const ascii = Array.from(part, (octet) => (octet >= 0x20 && octet < 0x7f ? String.fromCharCode(octet) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits(part).padEnd(48)} ${ascii}`);
  }
  if (octets.length > HEX) lines.push(`\u2026 ${bytes(octets.length)} in all`);
  return lines.join("\n");
}

/** A value on one line: its text, and whether it is a description of it. */
export function preview(entry) {
  const { payload, encoding, size } = entry;
  if (entry.deleted) return { text: "deleted", soft: true };
  if (size === 0) return { text: "empty", soft: true };
  const image = imageOf(payload, encoding);
  if (image) return { text: `${image.slice(6).toUpperCase()} image, ${bytes(size)}`, soft: true };
  const part = payload.subarray(0, 4 * PREVIEW);
  let text = textOf(part);
  // The cut may be within a character.
  if (text === undefined && payload.length > part.length) {
    for (let less = 1; less < 4 && text === undefined; less += 1) text = textOf(part.subarray(0, part.length - less));
  }
  if (text !== undefined) return { text: line(text), soft: false };
  return { text: `${digits(payload.subarray(0, 16))}${size > 16 ? `\u2026 ${bytes(size)}` : ""}`, soft: true };
}

/** Whether JSON nests so deep that its indentation would be a multiple of it. */
function isDeep(octets) {
  let depth = 0;
  for (const octet of octets) {
    if (octet === 0x5b || octet === 0x7b) depth += 1;
    else if (octet === 0x5d || octet === 0x7d) depth -= 1;
    if (depth > DEEP) return true;
  }
  return false;
}

/** A value in full: JSON in lines, text, or octets. */
export function whole(entry) {
  const { payload, encoding, size } = entry;
  const json = entry.isWhole ? jsonOf(payload, encoding) : undefined;
  const cut = (text) => {
    const short = text.length > TEXT ? `${text.slice(0, TEXT)}\n\u2026` : text;
    return clean(size > payload.length ? `${short}\n\u2026 ${bytes(size)} in all` : short);
  };
  if (json !== undefined) {
    try {
      return { kind: "JSON", text: cut(JSON.stringify(json, null, isDeep(payload) ? 0 : 2)) };
    } catch {
      // Deeper than the stack is: shown as it came.
    }
  }
  const part = payload.subarray(0, TEXT);
  const text = part.length < payload.length || !entry.isWhole ? loose.decode(part) : textOf(part);
  const isText = text !== undefined && (text.match(/\ufffd/g)?.length ?? 0) <= 1 && !/[\u0000-\u0008]/.test(text);
  return isText ? { kind: "text", text: cut(text) } : { kind: "octets", text: dump(payload) };
}
