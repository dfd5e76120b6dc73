// Keys with their last values, in a tree of their chunks. Every list has a bound; what is beyond is counted.

import { numberOf } from "./format.js";

/** Most keys, chunks of keys, characters and chunks of a key. */
const KEYS = 10_000;
const CHUNKS = 60_000;
const LENGTH = 1024;
const DEPTH = 32;
/** Octets of all values together; beyond, a key keeps the beginning of its value. */
const OCTETS = 64 << 20;
const BEGINNING = 4096;
/** Points of a plot, and of all together. */
export const POINTS = 600;
const ALL_POINTS = 1_000_000;

/** The last points of a line: times in seconds, and values. It grows up to its bound. */
export class Points {
  constructor(most = POINTS) {
    this.most = most;
    this.times = new Float64Array(16);
    this.values = new Float64Array(16);
    this.length = 0;
    this.first = 0;
  }
  add(time, value, mayGrow = true) {
    const room = this.times.length;
    if (this.length === room && room < this.most && mayGrow) this.grow(Math.min(2 * room, this.most));
    const at = (this.first + this.length) % this.times.length;
    this.times[at] = time;
    this.values[at] = value;
    if (this.length < this.times.length) this.length += 1;
    else this.first = (this.first + 1) % this.times.length;
  }
  grow(room) {
    const times = new Float64Array(room), values = new Float64Array(room);
    this.each((time, value, at) => { times[at] = time; values[at] = value; });
    [this.times, this.values, this.first] = [times, values, 0];
  }
  each(call) {
    for (let at = 0; at < this.length; at += 1) {
      const place = (this.first + at) % this.times.length;
      call(this.times[place], this.values[place], at);
    }
  }
}

/** Chunk of keys, and perhaps the end of one. */
class Chunk {
  constructor(name, parent) {
    this.name = name;
    this.parent = parent;
    this.depth = parent ? parent.depth + 1 : -1;
    // Numbers are sorted by their size.
    this.order = name.replace(/\d+/g, (digits) => digits.padStart(12, "0"));
    this.children = new Map();
    this.sorted = [];
    this.entry = undefined;
    /** Keys below. */
    this.below = 0;
    /** Whether it was opened or closed by hand. */
    this.opened = undefined;
  }
  /** Children in their order. */
  inOrder() {
    if (this.sorted.length !== this.children.size) {
      this.sorted = [...this.children.values()].sort((a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : 0));
    }
    return this.sorted;
  }
}

export class Keys {
  constructor() { this.clear(); }

  clear() {
    this.entries = new Map();
    this.root = new Chunk("", undefined);
    this.chunks = 0;
    this.octets = 0;
    this.points = 0;
    this.samples = 0;
    this.bytes = 0;
    /** Samples of keys beyond the bounds. */
    this.refused = 0;
    /** Counts changes of the tree. */
    this.version = (this.version ?? 0) + 1;
    this.watched = undefined;
  }

  /** Takes a sample, `now` in seconds. */
  add(sample, now) {
    this.samples += 1;
    this.bytes += sample.payload.length;
    const entry = this.entries.get(sample.key) ?? this.enter(sample.key);
    if (entry === undefined) { this.refused += 1; return; }
    entry.count += 1;
    entry.arrived = now;
    entry.deleted = sample.kind === "delete";
    entry.encoding = sample.encoding.slice(0, 256);
    entry.timestamp = sample.timestamp;
    entry.priority = sample.priority;
    this.keep(entry, sample.payload);
    const number = entry.deleted ? NaN : numberOf(sample.payload, sample.encoding);
    entry.number = number;
    if (Number.isFinite(number)) {
      entry.points ??= new Points();
      const before = entry.points.times.length;
      entry.points.add(now, number, this.points < ALL_POINTS);
      this.points += entry.points.times.length - before;
    }
    if (this.watched === entry) this.onWatched(entry, now);
  }

  enter(key) {
    if (this.entries.size >= KEYS || this.chunks >= CHUNKS || key.length > LENGTH) return undefined;
    const parts = key.split("/");
    if (parts.length > DEPTH) parts.splice(DEPTH - 1, parts.length, parts.slice(DEPTH - 1).join("/"));
    let chunk = this.root;
    for (const part of parts) {
      chunk.below += 1;
      let next = chunk.children.get(part);
      if (next === undefined) {
        next = new Chunk(part, chunk);
        chunk.children.set(part, next);
        this.chunks += 1;
      }
      chunk = next;
    }
    const entry = {
      key, chunk, count: 0, rate: 0, mark: 0, arrived: 0, deleted: false, encoding: "", payload: new Uint8Array(),
      size: 0, isWhole: true, number: NaN, points: undefined, timestamp: undefined, priority: undefined,
    };
    chunk.entry = entry;
    this.entries.set(key, entry);
    this.version += 1;
    return entry;
  }

  keep(entry, payload) {
    this.octets -= entry.payload.length;
    const fits = payload.length <= BEGINNING || this.octets + payload.length <= OCTETS;
    // A copy: the payload is a part of a message, all of which would stay in memory.
    entry.payload = fits ? payload.slice() : payload.slice(0, BEGINNING);
    entry.size = payload.length;
    entry.isWhole = fits;
    this.octets += entry.payload.length;
  }

  /** Computes rates; `seconds` since the last time. */
  tick(seconds) {
    for (const entry of this.entries.values()) {
      const rate = (entry.count - entry.mark) / seconds;
      entry.rate = entry.rate === 0 ? rate : 0.5 * (entry.rate + rate);
      if (entry.rate < 0.01) entry.rate = 0;
      entry.mark = entry.count;
    }
  }

  onWatched() {}
}

export const MOST_KEYS = KEYS;
