// Zenoh for web pages: a session over a WebSocket of a router, in one module without a build step.
//
//   import { open } from "http://robot:8000/zwire.js";
//   const session = await open("ws://robot:8000");
//   await session.subscribe("robot/**", (sample) => console.log(sample.key, sample.text()));
//   session.put("robot/speed", "0.5");
//
// The messages are those of the remote API of zenoh-ts 1.5 and later.

const PUT = 0;
const TIMEOUT = 10_000;
const BUFFERED = 2 << 20;
const PRIORITY = { "real-time": 1, "interactive-high": 2, "interactive-low": 3, "data-high": 4, data: 5, "data-low": 6, background: 7 };
const TARGET = { "best-matching": 0, all: 1, "all-complete": 2 };
const CONSOLIDATION = { auto: 0, none: 1, monotonic: 2, latest: 3 };
const LOCALITY = { "session-local": 0, remote: 1, any: 2 };
const ENCODINGS = [
  "zenoh/bytes", "zenoh/string", "zenoh/serialized", "application/octet-stream", "text/plain", "application/json",
  "text/json", "application/cdr", "application/cbor", "application/yaml", "text/yaml", "text/json5",
  "application/python-serialized-object", "application/protobuf", "application/java-serialized-object",
  "application/openmetrics-text", "image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp", "application/xml",
  "application/x-www-form-urlencoded", "text/html", "text/xml", "text/css", "text/javascript", "text/markdown", "text/csv",
  "application/sql", "application/coap-payload", "application/json-patch+json", "application/json-seq",
  "application/jsonpath", "application/jwt", "application/mp4", "application/soap+xml", "application/yang", "audio/aac",
  "audio/flac", "audio/mp4", "audio/ogg", "audio/vorbis", "video/h261", "video/h263", "video/h264", "video/h265",
  "video/h266", "video/mp4", "video/ogg", "video/raw", "video/vp8", "video/vp9",
];
const CUSTOM = 0xffff;
const utf8 = new TextEncoder();
const text = new TextDecoder();

/** Octets of a value: of bytes, of a text, or of JSON for anything else. */
function octetsOf(value) {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (value === undefined || value === null) return new Uint8Array();
  return utf8.encode(typeof value === "string" ? value : JSON.stringify(value));
}

/** Encoding of a value, if its user names none. */
function encodingOf(value, named) {
  if (named !== undefined) return named;
  if (value === undefined || value === null || value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return "zenoh/bytes";
  return typeof value === "string" ? "text/plain" : "application/json";
}

function choose(table, name, what) {
  const value = table[name];
  if (value === undefined) throw new TypeError(`${what} ${name}: expected one of ${Object.keys(table).join(", ")}`);
  return value;
}

class Writer {
  constructor(id, sequence) {
    this.octets = new Uint8Array(256);
    this.view = new DataView(this.octets.buffer);
    this.length = 0;
    this.u8(sequence === undefined ? id : id | 0x80);
    if (sequence !== undefined) this.u32(sequence);
  }
  room(count) {
    if (this.length + count <= this.octets.length) return;
    const larger = new Uint8Array(Math.max(2 * this.octets.length, this.length + count));
    larger.set(this.octets.subarray(0, this.length));
    this.octets = larger;
    this.view = new DataView(larger.buffer);
  }
  u8(value) { this.room(1); this.octets[this.length++] = value; return this; }
  u16(value) { this.room(2); this.view.setUint16(this.length, value, true); this.length += 2; return this; }
  u32(value) { this.room(4); this.view.setUint32(this.length, value, true); this.length += 4; return this; }
  u64(value) { this.room(8); this.view.setBigUint64(this.length, value, true); this.length += 8; return this; }
  size(value) {
    while (value >= 0x80) { this.u8(value % 0x80 | 0x80); value = Math.floor(value / 0x80); }
    return this.u8(value);
  }
  bytes(value) {
    this.size(value.length);
    this.room(value.length);
    this.octets.set(value, this.length);
    this.length += value.length;
    return this;
  }
  string(value) { return this.bytes(utf8.encode(value)); }
  option(value, write) { this.u8(value === undefined ? 0 : 1); if (value !== undefined) write(value); return this; }
  encoding(name) {
    const cut = name.indexOf(";");
    const id = ENCODINGS.indexOf(cut < 0 ? name : name.slice(0, cut));
    return id < 0 ? this.u16(CUSTOM).string(name) : this.u16(id).string(cut < 0 ? "" : name.slice(cut + 1));
  }
  attachment(value) { return this.option(value, (value) => this.bytes(octetsOf(value))); }
  timestamp(value) {
    return this.option(value, ({ time, id }) => {
      this.u64(time);
      const raw = new Uint8Array(16);
      raw.set(id.padStart(32, "0").match(/../g).map((pair) => parseInt(pair, 16)).reverse());
      this.bytes(raw);
    });
  }
  qos({ priority = "data", congestion = "drop", express = false, reliability = "reliable", destination = "any" }) {
    const block = congestion === "block" ? 8 : 0;
    const reliable = reliability === "reliable" ? 32 : 0;
    return this.u8(choose(PRIORITY, priority, "priority") | block | (express ? 16 : 0) | reliable |
      choose(LOCALITY, destination, "destination") << 6);
  }
  settings({ target = "best-matching", consolidation = "auto", anyKey = false }) {
    return this.u8(choose(TARGET, target, "target") | choose(CONSOLIDATION, consolidation, "consolidation") << 2 | (anyKey ? 0 : 16));
  }
  finish() { return this.octets.subarray(0, this.length); }
}

class Reader {
  constructor(buffer) { this.octets = new Uint8Array(buffer); this.view = new DataView(buffer); this.at = 0; }
  u8() { return this.view.getUint8(this.at++); }
  u16() { this.at += 2; return this.view.getUint16(this.at - 2, true); }
  u32() { this.at += 4; return this.view.getUint32(this.at - 4, true); }
  u64() { this.at += 8; return this.view.getBigUint64(this.at - 8, true); }
  bool() { return this.u8() === 1; }
  size() {
    let value = 0, factor = 1, octet;
    do { octet = this.u8(); value += (octet & 0x7f) * factor; factor *= 0x80; } while (octet & 0x80);
    return value;
  }
  bytes() {
    const length = this.size();
    if (this.at + length > this.octets.length) throw new RangeError("a message ends within a field");
    this.at += length;
    return this.octets.subarray(this.at - length, this.at);
  }
  string() { return text.decode(this.bytes()); }
  option(read) { return this.bool() ? read() : undefined; }
  list(read) { return Array.from({ length: this.size() }, read); }
  id() {
    const digits = Array.from(this.bytes()).reverse().map((octet) => octet.toString(16).padStart(2, "0")).join("");
    return digits.replace(/^0+/, "");
  }
  timestamp() { const time = this.u64(); return { time, id: this.id(), toString() { return `${time}/${this.id}`; } }; }
  encoding() {
    const id = this.u16(), schema = this.string();
    if (id === CUSTOM) return schema;
    const name = ENCODINGS[id] ?? `unknown(${id})`;
    return schema === "" ? name : `${name};${schema}`;
  }
  qos() {
    const bits = this.u8();
    const priority = Object.keys(PRIORITY).find((name) => PRIORITY[name] === (bits & 7));
    return { priority, congestion: bits & 8 ? "block" : "drop", express: (bits & 16) !== 0 };
  }
  sample() {
    const key = this.string(), payload = this.bytes(), kind = this.u8();
    const encoding = this.encoding(), attachment = this.option(() => this.bytes());
    const timestamp = this.option(() => this.timestamp());
    return new Sample({ key, payload, kind: kind === PUT ? "put" : "delete", encoding, attachment, timestamp, ...this.qos() });
  }
  transport() {
    const zid = this.id(), role = { 1: "router", 2: "peer", 4: "client" }[this.u8()];
    return { zid, role, qos: this.bool(), multicast: this.bool() };
  }
  link() {
    const zid = this.id(), src = this.string(), dst = this.string(), group = this.option(() => this.string());
    const mtu = this.u16(), streamed = this.bool(), interfaces = this.list(() => this.string());
    const user = this.option(() => this.string());
    const priorities = this.option(() => [this.u8(), this.u8()]);
    const reliable = this.option(() => this.u8() === 1);
    return { zid, src, dst, group, mtu, streamed, interfaces, user, priorities, reliable };
  }
}

/** A value: `key`, `payload` (octets), `encoding`, `kind`, `timestamp`, `attachment`. */
export class Sample {
  constructor(fields) { Object.assign(this, fields); }
  text() { return text.decode(this.payload); }
  json() { return JSON.parse(this.text()); }
}

/** An error that a queryable replied with. */
export class ReplyError extends Error {
  constructor(payload, encoding) {
    super(text.decode(payload));
    this.name = "ReplyError";
    this.payload = payload;
    this.encoding = encoding;
  }
}

/** A query to answer. It ends when its callback does: a promise that it returns is awaited. */
export class Query {
  constructor(session, fields) { this.session = session; Object.assign(this, fields); }
  text() { return text.decode(this.payload ?? new Uint8Array()); }
  json() { return JSON.parse(this.text()); }
  reply(key, value, options = {}) {
    const { attachment, timestamp } = options;
    this.session.send(new Writer(21).u32(this.id).string(key).bytes(octetsOf(value)).encoding(encodingOf(value, options.encoding))
      .attachment(attachment).timestamp(timestamp).qos(options));
  }
  replyDelete(key, options = {}) {
    this.session.send(new Writer(22).u32(this.id).string(key).attachment(options.attachment).timestamp(options.timestamp).qos(options));
  }
  replyError(value, options = {}) {
    this.session.send(new Writer(23).u32(this.id).bytes(octetsOf(value)).encoding(encodingOf(value, options.encoding)));
  }
}

/** Declared entity: `undeclare()` ends it. */
class Entity {
  constructor(session, id, request) { this.session = session; this.id = id; this.request = request; }
  undeclare() {
    this.session.receivers.delete(this.id);
    return this.session.ask((sequence) => new Writer(this.request, sequence).u32(this.id));
  }
}

class Publisher extends Entity {
  put(value, options = {}) {
    const encoding = options.encoding ?? this.encoding ?? encodingOf(value);
    const out = new Writer(16).u32(this.id).bytes(octetsOf(value));
    out.option(encoding, (name) => out.encoding(name));
    this.session.send(out.attachment(options.attachment).timestamp(options.timestamp));
  }
  delete(options = {}) {
    this.session.send(new Writer(17).u32(this.id).attachment(options.attachment).timestamp(options.timestamp));
  }
  matching() { return this.session.ask((sequence) => new Writer(28, sequence).u32(this.id)); }
  onMatching(callback) { return this.session.declare(26, 27, callback, (out) => out.u32(this.id)); }
}

class Querier extends Entity {
  get(parameters = "", options = {}) {
    return this.session.replies((id, sequence) => {
      const out = new Writer(19, sequence).u32(id).u32(this.id).string(parameters);
      return this.session.question(out, options).attachment(options.attachment);
    });
  }
  matching() { return this.session.ask((sequence) => new Writer(30, sequence).u32(this.id)); }
  onMatching(callback) { return this.session.declare(29, 27, callback, (out) => out.u32(this.id)); }
}

/** A session: made by `open`. */
export class Session {
  constructor(socket) {
    this.socket = socket;
    this.receivers = new Map();
    this.questions = new Map();
    this.ids = 0;
    this.sequences = 0;
    /** Settled when the connection is closed, with the reason. */
    this.closed = new Promise((resolve) => {
      socket.addEventListener("close", (event) => {
        const reason = event.reason || `the connection was closed (${event.code})`;
        for (const { reject } of this.questions.values()) reject(new Error(reason));
        for (const receiver of this.receivers.values()) receiver.end?.(new Error(reason));
        this.questions.clear();
        this.receivers.clear();
        resolve(reason);
      });
    });
    socket.addEventListener("message", (event) => this.receive(new Reader(event.data)));
  }

  send(out) {
    if (this.socket.readyState !== WebSocket.OPEN) throw new Error("the session is closed");
    this.socket.send(out.finish());
  }

  /** Sends a request, and returns its answer. */
  ask(write, timeout = TIMEOUT) {
    const sequence = this.sequences++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.questions.delete(sequence);
        reject(new Error("the router did not answer in time"));
      }, timeout);
      const settle = (end) => (value) => { clearTimeout(timer); this.questions.delete(sequence); end(value); };
      this.questions.set(sequence, { resolve: settle(resolve), reject: settle(reject) });
      try { this.send(write(sequence)); } catch (error) { settle(reject)(error); }
    });
  }

  receive(r) {
    const first = r.u8();
    if (first & 0x80) return this.answer(first & 0x7f, this.questions.get(r.u32()), r);
    const id = r.u32();
    const receiver = this.receivers.get(id);
    switch (first) {
      case 5: return receiver?.call(r.sample());
      case 6: return this.query(receiver, r);
      case 7: return receiver?.call(r.bool() ? r.sample() : new ReplyError(r.bytes(), r.encoding()));
      case 8: this.receivers.delete(id); return receiver?.end();
      case 10: return receiver?.call(r.bool());
      case 13: return receiver?.call({ kind: r.u8() === PUT ? "put" : "delete", transport: r.transport() });
      case 14: return receiver?.call({ kind: r.u8() === PUT ? "put" : "delete", link: r.link() });
    }
  }

  answer(id, question, r) {
    switch (id) {
      case 0: return question?.resolve(r.string());
      case 1: return question?.resolve();
      case 2: return question?.reject(new Error(r.string()));
      case 3: return question?.resolve(r.timestamp());
      case 4: return question?.resolve({ zid: r.id(), routers: r.list(() => r.id()), peers: r.list(() => r.id()) });
      case 9: return question?.resolve(r.bool());
      case 11: return question?.resolve(r.list(() => r.transport()));
      case 12: return question?.resolve(r.list(() => r.link()));
    }
  }

  async query(receiver, r) {
    const id = r.u32(), key = r.string(), parameters = r.string(), payload = r.option(() => r.bytes());
    const encoding = r.option(() => r.encoding()), attachment = r.option(() => r.bytes());
    const query = new Query(this, { id, key, parameters, payload, encoding, attachment, anyKey: r.u8() === 0 });
    try {
      await receiver?.call(query);
    } catch (error) {
      if (this.socket.readyState === WebSocket.OPEN) query.replyError(String(error));
      throw error;
    } finally {
      if (this.socket.readyState === WebSocket.OPEN) this.send(new Writer(24).u32(id));
    }
  }

  async declare(request, end, callback, write, kind = Entity) {
    const id = this.ids++;
    // Known before the answer: samples may come with it.
    if (callback) this.receivers.set(id, { call: callback });
    try {
      await this.ask((sequence) => { const out = new Writer(request, sequence).u32(id); write(out); return out; });
    } catch (error) {
      this.receivers.delete(id);
      throw error;
    }
    return new kind(this, id, end);
  }

  /** Publishes a value: octets, a text, or anything that JSON can hold. With `confirm` it returns a promise of its acceptance. */
  put(key, value, options = {}) {
    return this.publish(options, (sequence) => new Writer(14, sequence).string(key).bytes(octetsOf(value))
      .encoding(encodingOf(value, options.encoding)).attachment(options.attachment).timestamp(options.timestamp).qos(options));
  }

  /** Deletes a key, as `put`. */
  delete(key, options = {}) {
    return this.publish(options, (sequence) => new Writer(15, sequence).string(key)
      .attachment(options.attachment).timestamp(options.timestamp).qos(options));
  }

  publish({ confirm = false }, write) { return confirm ? this.ask(write) : this.send(write()); }

  /** Settled when the connection has taken what was sent, up to 2 MiB. */
  async drain() {
    while (this.socket.readyState === WebSocket.OPEN && this.socket.bufferedAmount > BUFFERED) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Calls `callback` with each sample on a key. */
  subscribe(key, callback, { origin = "any" } = {}) {
    return this.declare(2, 3, callback, (out) => out.string(key).u8(choose(LOCALITY, origin, "origin")));
  }

  /** Calls `callback` with each query on a key. */
  queryable(key, callback, { complete = false, origin = "any" } = {}) {
    return this.declare(4, 5, callback, (out) => out.string(key).u8(complete ? 1 : 0).u8(choose(LOCALITY, origin, "origin")));
  }

  /** Declares a publisher. */
  async publisher(key, options = {}) {
    const encoding = options.encoding ?? "zenoh/bytes";
    const publisher = await this.declare(0, 1, undefined, (out) => out.string(key).encoding(encoding).qos(options), Publisher);
    publisher.encoding = options.encoding;
    return publisher;
  }

  /** Declares a querier. */
  querier(key, options = {}) {
    const { timeout = TIMEOUT } = options;
    const write = (out) => out.string(key).qos({ congestion: "block", ...options }).settings(options).u32(timeout);
    return this.declare(6, 7, undefined, write, Querier);
  }

  /** Replies to a selector, as they come: samples, and errors of queryables (`ReplyError`). */
  get(selector, options = {}) {
    const cut = selector.indexOf("?");
    const [key, parameters] = cut < 0 ? [selector, ""] : [selector.slice(0, cut), selector.slice(cut + 1)];
    const { timeout = TIMEOUT } = options;
    return this.replies((id, sequence) => this.question(new Writer(18, sequence).u32(id).string(key).string(parameters), options)
      .attachment(options.attachment).qos({ congestion: "block", ...options }).settings(options).u32(timeout));
  }

  question(out, { value, encoding }) {
    const named = value === undefined ? encoding : encodingOf(value, encoding);
    out.option(value, (value) => out.bytes(octetsOf(value)));
    return out.option(named, (name) => out.encoding(name));
  }

  /** Items of a get, as an async iterator. */
  async *replies(write) {
    const id = this.ids++;
    const items = [];
    let wake = () => {}, ended = false, failure;
    this.receivers.set(id, {
      call: (item) => { items.push(item); wake(); },
      end: (error) => { ended = true; failure = error; wake(); },
    });
    this.ask((sequence) => write(id, sequence)).catch((error) => {
      const receiver = this.receivers.get(id);
      this.receivers.delete(id);
      receiver?.end(error);
    });
    while (true) {
      while (items.length > 0) yield items.shift();
      if (failure) throw failure;
      if (ended) return;
      await new Promise((resolve) => { wake = resolve; });
    }
  }

  /** Declares that the page lives: others see the token appear and vanish. */
  token(key) { return this.declare(8, 9, undefined, (out) => out.string(key)); }

  /** Calls `callback` when tokens appear (`put`) and vanish (`delete`). */
  watch(key, callback, { history = true } = {}) {
    return this.declare(10, 11, callback, (out) => out.string(key).u8(history ? 1 : 0));
  }

  /** Tokens that are alive. */
  alive(key, { timeout = TIMEOUT } = {}) {
    return this.replies((id, sequence) => new Writer(20, sequence).u32(id).string(key).u32(timeout));
  }

  /** Ids of the session, its routers and peers. */
  info() { return this.ask((sequence) => new Writer(12, sequence)); }
  timestamp() { return this.ask((sequence) => new Writer(13, sequence)); }
  ping() { return this.ask((sequence) => new Writer(25, sequence)); }
  transports() { return this.ask((sequence) => new Writer(31, sequence)); }
  links() { return this.ask((sequence) => new Writer(32, sequence)); }
  onTransports(callback, { history = true } = {}) {
    return this.declare(33, 34, callback, (out) => out.u8(history ? 1 : 0));
  }
  onLinks(callback, { history = true } = {}) {
    return this.declare(35, 36, callback, (out) => out.u8(history ? 1 : 0));
  }

  /** Closes the session: the router undeclares everything of it. */
  close() { this.socket.close(1000); return this.closed; }
}

/** Opens a session at `ws://HOST:PORT`, or `wss://`; the address of zenoh-ts, `ws/HOST:PORT`, is understood as well. */
export async function open(address, { token } = {}) {
  const url = address.replace(/^(wss?)\/(?!\/)/, "$1://");
  const socket = token === undefined ? new WebSocket(url) : new WebSocket(url, ["zwire", `bearer.${token}`]);
  socket.binaryType = "arraybuffer";
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve, { once: true });
    socket.addEventListener("close", () => reject(new Error(`${url}: no connection`)), { once: true });
  });
  const session = new Session(socket);
  await session.ping();
  return session;
}
