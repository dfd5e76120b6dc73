// Nodes and links as a graph that moves: nodes repel each other, links pull, and dots run where octets flow.

import { bytes, line } from "./format.js";
import { Surface, colour } from "./value.js";

/** Nodes that are drawn; each repels each other one. */
const DRAWN = 400;
/** Nodes up to which all have their names beside them. */
const NAMED = 16;
const RADIUS = { router: 9, peer: 6.5, client: 5 };
const LENGTH = 60;
/** Milliseconds between two pictures. */
const PERIOD = 33;
/** Links up to which several dots run along each. */
const FEW = 60;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Graph {
  constructor(canvas, tip, choose) {
    this.surface = new Surface(canvas);
    this.tip = tip;
    this.nodes = new Map();
    this.edges = [];
    this.heat = 0;
    this.last = 0;
    this.scale = undefined;
    this.isSeen = true;
    this.isDirty = true;
    this.hidden = 0;
    this.surface.onFit = () => { this.isDirty = true; this.onChange(); };
    new IntersectionObserver(([entry]) => { this.isSeen = entry.isIntersecting; this.onChange(); }).observe(canvas);
    const redraw = () => { this.isDirty = true; this.onChange(); };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => { this.pointed = undefined; this.tell(); });
    canvas.addEventListener("click", () => { if (this.pointed) choose(this.pointed.zid); });
  }

  onChange() {}

  /** Takes the nodes and links that there are now. */
  update(network) {
    const { nodes, edges } = this;
    const wanted = [...network.nodes.values()].slice(0, DRAWN);
    this.hidden = network.nodes.size - wanted.length;
    const known = new Set(wanted.map((node) => node.zid));
    let changed = false;
    for (const zid of nodes.keys()) if (!known.has(zid)) { nodes.delete(zid); changed = true; }
    const pairs = network.edges().filter((edge) => known.has(edge.a) && known.has(edge.b));
    const beside = new Map(pairs.flatMap(({ a, b }) => [[a, b], [b, a]]));
    for (const told of wanted) {
      let node = nodes.get(told.zid);
      if (node === undefined) {
        // Near a neighbour, or on a spiral; the place depends on nothing random.
        const near = nodes.get(beside.get(told.zid));
        const turn = nodes.size * 2.39996;
        const far = near ? 30 : 14 * Math.sqrt(nodes.size);
        node = { zid: told.zid, x: (near?.x ?? 0) + far * Math.cos(turn), y: (near?.y ?? 0) + far * Math.sin(turn), vx: 0, vy: 0 };
        nodes.set(told.zid, node);
        changed = true;
      }
      Object.assign(node, { role: told.role, name: told.name, links: 0 });
    }
    const before = new Map(edges.map((edge) => [edge.id, edge]));
    this.edges = pairs.map((edge) => {
      if (!before.has(edge.id)) changed = true;
      const [a, b] = [nodes.get(edge.a), nodes.get(edge.b)];
      a.links += 1;
      b.links += 1;
      return { ...edge, a, b };
    });
    if (changed || before.size !== this.edges.length) this.heat = 1;
    this.isDirty = true;
    if (calm.matches) while (this.heat > 0.01) this.step();
    this.onChange();
  }

  get isMoving() {
    if (!this.isSeen || calm.matches) return false;
    return this.heat > 0.01 || this.edges.some((edge) => edge.there + edge.back > 1);
  }

  step() {
    const list = [...this.nodes.values()];
    const push = 900 * this.heat;
    for (let i = 0; i < list.length; i += 1) {
      const one = list[i];
      for (let j = i + 1; j < list.length; j += 1) {
        const other = list[j];
        const dx = one.x - other.x, dy = one.y - other.y;
        const square = dx * dx + dy * dy + 25;
        if (square > 90_000) continue;
        const force = push / square;
        const length = Math.sqrt(square);
        one.vx += (dx / length) * force * 8;
        one.vy += (dy / length) * force * 8;
        other.vx -= (dx / length) * force * 8;
        other.vy -= (dy / length) * force * 8;
      }
      one.vx -= one.x * 0.012 * this.heat;
      one.vy -= one.y * 0.012 * this.heat;
    }
    for (const { a, b } of this.edges) {
      const dx = b.x - a.x, dy = b.y - a.y;
      const length = Math.hypot(dx, dy) || 1;
      const wanted = LENGTH + 3 * Math.sqrt(Math.max(a.links, b.links));
      const pull = ((length - wanted) / length) * 0.35 * this.heat / Math.max(1, Math.min(a.links, b.links) ** 0.5);
      const share = a.links / (a.links + b.links);
      a.vx += dx * pull * (1 - share);
      a.vy += dy * pull * (1 - share);
      b.vx -= dx * pull * share;
      b.vy -= dy * pull * share;
    }
    for (const node of list) {
      const speed = Math.hypot(node.vx, node.vy);
      const slow = speed > 30 ? 30 / speed : 1;
      node.x += node.vx * slow;
      node.y += node.vy * slow;
      node.vx *= 0.55;
      node.vy *= 0.55;
    }
    this.heat *= 0.985;
  }

  /** Moves and draws, not more often than every few milliseconds. */
  frame(now) {
    if (now - this.last < PERIOD || !this.isSeen || (!this.isDirty && !this.isMoving)) return;
    this.last = now;
    if (this.heat > 0.01) { this.step(); this.step(); }
    this.draw(now);
    this.isDirty = false;
  }

  /** Keeps all nodes within the picture, without jumps. */
  fit() {
    let [left, top, right, bottom] = [-60, -60, 60, 60];
    for (const { x, y } of this.nodes.values()) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    const { width, height } = this.surface;
    const scale = Math.min(1.6, (width - 60) / (right - left), (height - 50) / (bottom - top));
    const wanted = { scale, x: (left + right) / 2, y: (top + bottom) / 2 };
    const share = this.scale === undefined || calm.matches ? 1 : 0.3;
    for (const name of ["scale", "x", "y"]) this[name] = (this[name] ?? wanted[name]) * (1 - share) + wanted[name] * share;
  }

  place(node) {
    return [(node.x - this.x) * this.scale + this.surface.width / 2, (node.y - this.y) * this.scale + this.surface.height / 2];
  }

  draw(now) {
    if (this.surface.width === 0) return;
    this.fit();
    const context = this.surface.clear();
    const size = Math.max(0.55, Math.min(1, this.scale));
    context.lineWidth = 1;
    context.strokeStyle = colour("--edge");
    context.beginPath();
    for (const { a, b } of this.edges) {
      context.moveTo(...this.place(a));
      context.lineTo(...this.place(b));
    }
    context.stroke();
    context.fillStyle = colour("--accent");
    context.beginPath();
    for (const edge of calm.matches ? [] : this.edges) {
      const [from, to] = [this.place(edge.a), this.place(edge.b)];
      this.dots(context, from, to, edge.there, now, size);
      this.dots(context, to, from, edge.back, now + 500, size);
    }
    context.fill();
    for (const role of ["client", "peer", "router"]) {
      context.fillStyle = colour(`--${role}`);
      context.beginPath();
      for (const node of this.nodes.values()) {
        if (node.role !== role) continue;
        const [x, y] = this.place(node);
        const radius = RADIUS[role] * size;
        context.moveTo(x + radius, y);
        context.arc(x, y, radius, 0, 2 * Math.PI);
      }
      context.fill();
    }
    const { pointed, chosen } = this;
    for (const node of [pointed, this.nodes.get(chosen)]) {
      if (!node || !this.nodes.has(node.zid)) continue;
      const [x, y] = this.place(node);
      context.lineWidth = 2;
      context.strokeStyle = colour("--text");
      context.beginPath();
      context.arc(x, y, RADIUS[node.role] * size + 3, 0, 2 * Math.PI);
      context.stroke();
    }
    context.fillStyle = colour("--text");
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    const all = this.nodes.size <= NAMED;
    for (const node of this.nodes.values()) {
      if (!all && node.role !== "router") continue;
      if (!all && this.nodes.size > 120) continue;
      const [x, y] = this.place(node);
      context.fillText(nameOf(node), x, y + RADIUS[node.role] * size + 13);
    }
  }

  /** Dots on the way from one place to another: more and faster ones for more octets. */
  dots(context, [x, y], [toX, toY], rate, now, size) {
    if (rate < 1) return;
    const level = Math.min(6, Math.log10(rate));
    const number = this.edges.length > FEW ? 1 : 1 + Math.floor(level / 2);
    const radius = 2 * size;
    const speed = 0.00015 + 0.0001 * level;
    for (let dot = 0; dot < number; dot += 1) {
      const share = (now * speed + dot / number) % 1;
      const [px, py] = [x + (toX - x) * share, y + (toY - y) * share];
      context.moveTo(px + radius, py);
      context.arc(px, py, radius, 0, 2 * Math.PI);
    }
  }

  point(event) {
    const { offsetX, offsetY } = event;
    let nearest, least = 196;
    for (const node of this.nodes.values()) {
      const [x, y] = this.place(node);
      const square = (x - offsetX) ** 2 + (y - offsetY) ** 2;
      if (square < least) [nearest, least] = [node, square];
    }
    if (this.pointed === nearest) return;
    this.pointed = nearest;
    this.tell();
  }

  tell() {
    const node = this.pointed;
    this.tip.hidden = node === undefined;
    if (node) {
      const rate = this.edges.reduce((sum, edge) => sum + (edge.a === node || edge.b === node ? edge.there + edge.back : 0), 0);
      const flow = rate > 0 ? `, ${bytes(rate)}/s` : "";
      this.tip.textContent = `${node.role} ${node.zid}${node.name ? ` "${line(node.name, 60)}"` : ""}: ${node.links} linked${flow}`;
    }
    this.isDirty = true;
    this.onChange();
  }

  choose(zid) {
    this.chosen = zid;
    this.isDirty = true;
    this.onChange();
  }
}

/** Name of a node: that of its metadata, or the beginning of its id. */
export function nameOf(node) {
  return node.name ? line(node.name, 24) : node.zid.slice(0, 8);
}
