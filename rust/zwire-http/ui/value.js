// The selected key: its value in full, and numbers of it over time.

import { bytes, clean, count, imageOf, isShowable, jsonOf, line, short, whole } from "./format.js";
import { Points } from "./keys.js";

/** Most lines of one plot, and octets of JSON that is read for them at each sample. */
const LINES = 4;
const PARSED = 16 * 1024;
const COLOURS = ["--one", "--two", "--three", "--four"];

let colours = {};
/** Colours of the style sheet; they differ between light and dark. */
export function colour(name) {
  colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return colours[name];
}
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => { colours = {}; });

/** A canvas whose points are those of the screen. */
export class Surface {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.width = 0;
    this.height = 0;
    new ResizeObserver(() => this.fit()).observe(canvas);
  }
  fit() {
    const ratio = Math.min(2, devicePixelRatio || 1);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || (width === this.width && height === this.height && ratio === this.ratio)) return;
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.onFit();
  }
  onFit() {}
  clear() {
    this.context.setTransform(this.ratio ?? 1, 0, 0, this.ratio ?? 1, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    return this.context;
  }
}

/** Draws lines of points into a rectangle, to one scale, which has the 0 if they are thin; returns that. */
export function drawLines(context, lines, { left, top, width, height }, thin = false) {
  let [least, most, begin, end] = [thin ? 0 : Infinity, -Infinity, Infinity, -Infinity];
  for (const points of lines) {
    points.each((time, value) => {
      least = Math.min(least, value);
      most = Math.max(most, value);
      begin = Math.min(begin, time);
      end = Math.max(end, time);
    });
  }
  if (!(end > begin)) return { least, most, seconds: 0 };
  const middle = (least + most) / 2;
  const spread = most > least ? most - least : Math.abs(most) || 1;
  context.lineWidth = thin ? 1.2 : 1.6;
  context.lineJoin = "round";
  lines.forEach((points, at) => {
    context.strokeStyle = colour(COLOURS[at % COLOURS.length]);
    context.beginPath();
    points.each((time, value, place) => {
      const x = left + ((time - begin) / (end - begin)) * width;
      const y = top + (0.5 - (value - middle) / spread) * height;
      if (place === 0) context.moveTo(x, y);
      else context.lineTo(x, y);
    });
    context.stroke();
  });
  return { least, most, seconds: end - begin };
}

export class ValueView {
  constructor(keys) {
    const find = (id) => document.getElementById(id);
    this.keys = keys;
    this.parts = {
      key: find("value-key"), facts: find("value-facts"), plot: find("value-plot"), legend: find("value-legend"),
      image: find("value-image"), text: find("value-text"),
    };
    this.surface = new Surface(this.parts.plot);
    this.surface.onFit = () => this.drawPlot();
    this.picture = document.createElement("img");
    this.picture.decoding = "async";
    this.picture.alt = "value of the selected key as an image";
    this.entry = undefined;
    this.series = new Map();
    this.seen = -1;
    this.urls = [];
    keys.onWatched = (entry, now) => this.read(entry, now);
    dark.addEventListener("change", () => this.drawPlot());
  }

  select(entry) {
    if (this.entry === entry) return;
    this.entry = entry;
    this.keys.watched = entry;
    this.series = new Map();
    this.seen = -1;
    // The last value is the first point.
    if (entry && !entry.deleted) this.read(entry, entry.arrived);
  }

  /** Takes the numbers of an object in JSON. */
  read(entry, now) {
    if (Number.isFinite(entry.number) || entry.size > PARSED) return;
    const value = jsonOf(entry.payload, entry.encoding);
    if (value === null || typeof value !== "object") return;
    for (const [name, number] of Object.entries(value)) {
      if (typeof number !== "number" || !Number.isFinite(number)) continue;
      const points = this.series.get(name) ?? (this.series.size < LINES ? new Points() : undefined);
      if (points === undefined) continue;
      this.series.set(name, points);
      points.add(now, number);
    }
  }

  render() {
    const { entry, parts } = this;
    if (entry === undefined) {
      parts.key.textContent = "Select a key to see its value, and numbers as a plot.";
      parts.facts.replaceChildren();
      for (const part of [parts.plot, parts.image, parts.text]) part.hidden = true;
      parts.legend.replaceChildren();
      return;
    }
    if (this.seen === entry.count && this.rate === entry.rate) return;
    const isNew = this.seen !== entry.count;
    this.seen = entry.count;
    this.rate = entry.rate;
    this.tellFacts();
    if (!isNew) return;
    parts.key.textContent = clean(entry.key);
    const media = entry.isWhole && !entry.deleted ? imageOf(entry.payload, entry.encoding) : undefined;
    const showable = media !== undefined && isShowable(entry.payload, media);
    parts.image.hidden = !showable;
    parts.text.hidden = showable;
    if (showable) this.showImage(media);
    else this.showText();
    const lines = this.lines();
    parts.plot.hidden = !lines.some((points) => points.length > 1);
    const names = Number.isFinite(entry.number) ? [] : [...this.series.keys()];
    if (names.join("\n") !== this.names) {
      this.names = names.join("\n");
      parts.legend.replaceChildren(...names.map((name) => {
        const item = document.createElement("li");
        item.textContent = line(name, 40);
        return item;
      }));
    }
    this.drawPlot();
  }

  tellFacts() {
    const { entry } = this;
    const facts = [
      ["encoding", line(entry.encoding)], ["size", bytes(entry.size)], ["samples", count(entry.count)],
      ["per second", short(entry.rate)], ["priority", entry.priority ?? ""],
    ];
    if (entry.timestamp) {
      const seconds = Number(entry.timestamp.time >> 32n) + Number(entry.timestamp.time & 0xffffffffn) / 2 ** 32;
      const date = new Date(seconds * 1000);
      if (Number.isFinite(date.getTime())) facts.push(["stamped", date.toISOString().replace("T", " ").slice(0, 23)]);
    }
    const told = facts.map(([, value]) => value).join("\n");
    if (told === this.told && this.parts.facts.children.length === facts.length) return;
    this.told = told;
    this.parts.facts.replaceChildren(...facts.map(([name, value]) => {
      const pair = document.createElement("div");
      for (const [kind, text] of [["dt", name], ["dd", value]]) {
        const part = document.createElement(kind);
        part.textContent = text;
        pair.append(part);
      }
      return pair;
    }));
  }

  showText() {
    const { text } = this.parts;
    const shown = this.entry.deleted ? { kind: "deleted", text: "The key was deleted." } : whole(this.entry);
    if (text.dataset.kind !== shown.kind) text.dataset.kind = shown.kind;
    if (this.shown !== shown.text) {
      this.shown = shown.text;
      text.textContent = shown.text;
    }
  }

  showImage(media) {
    const url = URL.createObjectURL(new Blob([this.entry.payload], { type: media }));
    this.urls.push(url);
    // Those before it are kept until it is there, so that the picture does not flicker.
    this.picture.onload = this.picture.onerror = () => {
      for (const before of this.urls.splice(0, this.urls.indexOf(url))) URL.revokeObjectURL(before);
    };
    this.picture.src = url;
    if (!this.picture.isConnected) this.parts.image.append(this.picture);
  }

  lines() {
    if (this.entry === undefined) return [];
    if (Number.isFinite(this.entry.number) && this.entry.points) return [this.entry.points];
    return [...this.series.values()];
  }

  drawPlot() {
    const lines = this.lines();
    if (lines.length === 0) return;
    const { width, height } = this.surface;
    const context = this.surface.clear();
    const area = { left: 54, top: 8, width: width - 60, height: height - 28 };
    const { least, most, seconds } = drawLines(context, lines, area);
    context.fillStyle = colour("--soft");
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(short(most), 48, area.top + 4);
    if (most > least) context.fillText(short(least), 48, area.top + area.height - 2);
    context.textBaseline = "alphabetic";
    if (seconds > 0) {
      context.fillText("now", width - 6, height - 5);
      context.textAlign = "left";
      context.fillText(`${short(seconds)} s ago`, area.left, height - 5);
    }
  }
}
