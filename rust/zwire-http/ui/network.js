// Nodes, links and losses, as the nodes tell in their admin space. What they tell is checked: each is a stranger.

import { Points } from "./keys.js";

/** Answers that are read at each look, octets of one and of all, nodes, and links. */
const ANSWERS = 1000;
const LARGEST = 1 << 20;
const TOGETHER = 16 << 20;
const NODES = 1000;
const LINKS = 4000;
const LINES = 400;
/** Looks after which a node that is not told of is gone. */
const MISSED = 1;
/** Milliseconds between two looks, and that one may take. */
export const PERIOD = 2000;
const PATIENCE = 3000;
/** Points of the plot of a link: ten minutes. */
const HISTORY = 300;

const ID = /^[0-9a-f]{1,32}$/;
const ROLES = new Set(["router", "peer", "client"]);
/** Counters of losses, with their reasons. */
const REASONS = {
  "link.tx_dropped": "the queue of a link was full: congestion",
  "link.rx_shm_failed": "a payload in shared memory could not be read",
  "lending.stale": "a payload in shared memory was gone before it was read",
  "handler.dropped": "a subscriber took its samples too slowly",
  "handler.queries_dropped": "a queryable took its queries too slowly",
  "handler.replies_dropped": "a get took its replies too slowly",
  "session.dropped.put_no_link": "a publication while there was no link",
  "session.dropped.out_link_lost": "a link ended with messages in its queue",
  "session.dropped.put_no_subscriber": "a publication that no subscriber wanted",
  "session.dropped.put_no_local_subscriber": "a publication that no subscriber of the session wanted",
  "session.dropped.push_no_subscriber": "a publication arrived that no subscriber wanted",
  "session.dropped.in_bad_key": "a message with a key that is not valid",
  "session.dropped.request_refused": "a query that was refused",
  "session.dropped.reply_late": "a reply after the end of its query",
  "session.dropped.reply_bad_key": "a reply with a key that the query does not select",
  "session.dropped.reply_consolidated": "a reply that a newer one replaced",
  "session.dropped.consolidation_overflow": "replies beyond the bound of consolidation",
  "session.dropped.declare_ignored": "a declaration that was ignored",
  "node.future_dropped": "a message ahead of its declaration, beyond the bound",
};
/** Ends of messages that are no losses: there was no receiver, or a newer reply. */
const NO_LOSS = new Set([
  "session.dropped.put_no_subscriber", "session.dropped.put_no_local_subscriber", "session.dropped.push_no_subscriber",
  "session.dropped.reply_consolidated",
]);

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const listOf = (value) => (Array.isArray(value) ? value : []);
const numberIn = (object, name) => (isObject(object) && Number.isFinite(object[name]) ? object[name] : undefined);
const textIn = (object, name) => (isObject(object) && typeof object[name] === "string" ? object[name].slice(0, 256) : "");

export class Network {
  constructor(session, zid) {
    this.session = session;
    /** Node that serves the page. */
    this.zid = zid;
    this.nodes = new Map();
    this.links = new Map();
    this.drops = new Map();
    this.tokens = new Map();
    this.tokensRefused = 0;
    this.log = [];
    this.looks = 0;
    /** Nodes and links beyond the bounds. */
    this.left = 0;
    this.dropRate = 0;
  }

  /** Asks all nodes once. */
  async look(withLog) {
    this.looks += 1;
    this.left = 0;
    let answers = 0, octets = 0;
    const options = { timeout: PATIENCE, consolidation: "none" };
    for await (const reply of this.session.get("@/*/*?_stats", options)) {
      answers += 1;
      octets += reply.payload.length;
      if (answers > ANSWERS || octets > TOGETHER) { this.left += 1; continue; }
      this.hear(reply, performance.now() / 1000);
    }
    this.forget();
    this.dropRate = [...this.drops.values()].reduce((sum, drop) => sum + (drop.isLoss ? drop.rate : 0), 0);
    if (withLog) await this.lookAtLog();
  }

  hear(reply, now) {
    if (!reply.key || reply.payload.length > LARGEST) return;
    const [at, zid, role, more] = reply.key.split("/");
    let root;
    try { root = reply.json(); } catch { return; }
    if (at !== "@" || more !== undefined || !ID.test(zid) || !ROLES.has(role) || !isObject(root)) return;
    const node = this.node(zid, role);
    if (node === undefined) return;
    node.tells = true;
    node.version = textIn(root, "version");
    node.name = textIn(root.metadata, "name");
    node.locators = listOf(root.locators).filter((one) => typeof one === "string").slice(0, 16).map((one) => one.slice(0, 256));
    node.neighbours = 0;
    for (const each of listOf(root.sessions)) this.hearSession(node, each, now);
    if (isObject(root.stats)) this.hearStats(node, root.stats, now);
  }

  hearSession(node, told, now) {
    const zid = textIn(told, "peer"), role = textIn(told, "whatami");
    if (!ID.test(zid) || !ROLES.has(role)) return;
    node.neighbours += 1;
    const neighbour = this.node(zid, role);
    if (neighbour === undefined) return;
    for (const link of listOf(told.links)) {
      const ends = isObject(link) ? [textIn(link, "src"), textIn(link, "dst")] : ["", String(link).slice(0, 256)];
      this.hearLink(node, neighbour, ends, isObject(link) ? link.stats : undefined, now);
    }
  }

  hearLink(node, neighbour, [src, dst], stats, now) {
    const id = `${node.zid} ${neighbour.zid} ${src} ${dst}`;
    let link = this.links.get(id);
    if (link === undefined) {
      if (this.links.size >= LINKS) { this.left += 1; return; }
      link = { id, node, neighbour, src, dst, tx: undefined, rx: undefined, points: new Points(HISTORY) };
      this.links.set(id, link);
    }
    link.look = this.looks;
    const sent = numberIn(stats, "tx_bytes"), got = numberIn(stats, "rx_bytes");
    link.waiting = numberIn(stats, "waiting_bytes");
    link.capacity = numberIn(stats, "capacity_bytes");
    link.dropped = numberIn(stats, "tx_dropped");
    if (sent === undefined || got === undefined) return;
    if (link.time !== undefined && now > link.time) {
      const rate = (after, before) => Math.max(0, (after - before) / (now - link.time));
      link.tx = rate(sent, link.sent);
      link.rx = rate(got, link.got);
      link.points.add(now, link.tx + link.rx);
    }
    Object.assign(link, { time: now, sent, got });
  }

  hearStats(node, stats, now) {
    for (const [name, total] of Object.entries(stats).slice(0, 1000)) {
      const known = Object.hasOwn(REASONS, name);
      // The sum of others, and the rate, are no reasons.
      if (!Number.isFinite(total) || total <= 0 || name.startsWith("drops") || !(known || name.includes("drop"))) continue;
      const id = `${node.zid} ${name}`;
      const before = this.drops.get(id);
      if (before === undefined && this.drops.size >= LINKS) { this.left += 1; continue; }
      const rate = before && now > before.time ? Math.max(0, (total - before.total) / (now - before.time)) : 0;
      const reason = known ? REASONS[name] : "";
      this.drops.set(id, { id, node, name: name.slice(0, 128), reason, total, rate, time: now, look: this.looks, isLoss: !NO_LOSS.has(name) });
    }
  }

  node(zid, role) {
    let node = this.nodes.get(zid);
    if (node === undefined) {
      if (this.nodes.size >= NODES) { this.left += 1; return undefined; }
      node = { zid, role, version: "", name: "", locators: [], neighbours: 0, tells: false };
      this.nodes.set(zid, node);
    }
    node.role = role;
    node.look = this.looks;
    return node;
  }

  /** Notes that a node is linked to this one no more: it is gone unless the next look tells of it. */
  lost(zid) {
    const node = this.nodes.get(zid);
    if (node) node.look = -Infinity;
    for (const link of this.links.values()) if (link.node === node || link.neighbour === node) link.look = -Infinity;
  }

  /** Removes what is told of no more. */
  forget() {
    for (const table of [this.nodes, this.drops]) {
      for (const [id, one] of table) if (this.looks - one.look > MISSED) table.delete(id);
    }
    for (const [id, link] of this.links) {
      if (link.look !== this.looks && (link.look < this.looks - MISSED || !link.node.tells)) this.links.delete(id);
    }
  }

  /** Nodes that are linked, each pair once, with the octets per second from the first to the second and back. */
  edges() {
    const pairs = new Map();
    for (const link of this.links.values()) {
      const [one, other] = [link.node, link.neighbour];
      if (!this.nodes.has(one.zid) || !this.nodes.has(other.zid)) continue;
      const forward = one.zid < other.zid;
      const id = forward ? `${one.zid} ${other.zid}` : `${other.zid} ${one.zid}`;
      const pair = pairs.get(id) ?? { id, a: forward ? one.zid : other.zid, b: forward ? other.zid : one.zid, there: 0, back: 0 };
      // Both ends may tell of a link: the greater number counts, which is the sum of parallel links only from one end.
      const [out, into] = [link.tx ?? 0, link.rx ?? 0];
      pair.there = Math.max(pair.there, forward ? out : into);
      pair.back = Math.max(pair.back, forward ? into : out);
      pairs.set(id, pair);
    }
    return [...pairs.values()];
  }

  /** Samples that the node of the page has dropped since the first look, because its receivers were too slow. */
  get missed() {
    const total = this.drops.get(`${this.zid} handler.dropped`)?.total ?? 0;
    if (this.nodes.get(this.zid)?.tells) this.missedBefore ??= total;
    return total - (this.missedBefore ?? total);
  }

  /** Notes a liveliness token that appeared or vanished. */
  token(sample, now) {
    if (sample.kind === "delete") this.tokens.delete(sample.key);
    else if (this.tokens.has(sample.key) || (this.tokens.size < 5000 && sample.key.length <= 1024)) this.tokens.set(sample.key, now);
    else this.tokensRefused += 1;
  }

  async lookAtLog() {
    const lines = [];
    let octets = 0;
    for await (const reply of this.session.get("@/*/*/status/log", { timeout: PATIENCE, consolidation: "none" })) {
      octets += reply.payload.length;
      if (!reply.key || reply.payload.length > LARGEST || octets > TOGETHER) continue;
      let told;
      try { told = reply.json(); } catch { continue; }
      const zid = reply.key.split("/")[1];
      for (const line of listOf(told).slice(-LINES)) if (typeof line === "string") lines.push([zid, line.slice(0, 2048)]);
    }
    // A line begins with its time.
    lines.sort(([, one], [, other]) => (one < other ? -1 : one > other ? 1 : 0));
    this.log = lines.slice(-LINES);
  }
}
