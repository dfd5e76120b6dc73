// The tree of keys, as rows that are in sight. It has a few dozen elements, whatever the number of keys.

import { clean, count, line, preview, short } from "./format.js";

const HEIGHT = 26;
/** Children up to which a chunk is open from the beginning. */
const OPEN = 50;
/** Elements have a largest height. */
const TALLEST = 8_000_000;

export class Tree {
  constructor(element, keys, choose) {
    this.element = element;
    this.keys = keys;
    this.choose = choose;
    this.rows = [];
    this.lines = [];
    this.version = -1;
    this.cursor = undefined;
    this.chosen = undefined;
    this.filter = "";
    this.space = document.createElement("div");
    this.space.setAttribute("role", "presentation");
    element.append(this.space);
    this.height = element.clientHeight;
    new ResizeObserver(() => { this.height = element.clientHeight; this.onChange(); }).observe(element);
    element.addEventListener("scroll", () => this.onChange(), { passive: true });
    element.addEventListener("click", (event) => this.click(event));
    element.addEventListener("keydown", (event) => this.press(event));
    element.addEventListener("focus", () => { this.cursor ??= this.rows[0]; this.onChange(); });
  }

  onChange() {}

  isOpen(chunk) {
    if (this.filter !== "") return chunk.opened !== false;
    return chunk.opened ?? chunk.children.size <= OPEN;
  }

  setFilter(text) {
    this.filter = text.trim().toLowerCase();
    this.version = -1;
    this.element.scrollTop = 0;
    this.onChange();
  }

  /** Chunks in sight if all were on the screen, in their order. */
  flatten() {
    const rows = [];
    const wanted = this.filter === "" ? undefined : this.matching();
    const visit = (chunk) => {
      for (const child of chunk.inOrder()) {
        if (wanted && !wanted.has(child)) continue;
        rows.push(child);
        if (child.children.size > 0 && this.isOpen(child)) visit(child);
      }
    };
    visit(this.keys.root);
    this.rows = rows;
    this.version = this.keys.version;
    const height = `${Math.min(rows.length * HEIGHT, TALLEST)}px`;
    if (this.space.style.height !== height) this.space.style.height = height;
  }

  /** Chunks of keys with the text of the filter. */
  matching() {
    const found = new Set();
    for (const entry of this.keys.entries.values()) {
      if (!entry.key.toLowerCase().includes(this.filter)) continue;
      for (let chunk = entry.chunk; chunk && !found.has(chunk); chunk = chunk.parent) found.add(chunk);
    }
    return found;
  }

  render() {
    if (this.version !== this.keys.version) this.flatten();
    const first = Math.max(0, Math.floor(this.element.scrollTop / HEIGHT) - 2);
    const needed = Math.min(this.rows.length, Math.ceil(this.height / HEIGHT) + 4);
    while (this.lines.length < needed) this.lines.push(this.newLine(this.lines.length));
    let active = "";
    for (const [at, shown] of this.lines.entries()) {
      const chunk = at < needed ? this.rows[first + at] : undefined;
      this.fill(shown, chunk, first + at);
      if (chunk && chunk === this.cursor) active = shown.element.id;
    }
    set(this.element, "aria-activedescendant", active);
  }

  newLine(number) {
    const element = document.createElement("div");
    element.className = "row";
    element.id = `row-${number}`;
    element.setAttribute("role", "treeitem");
    const cells = ["name", "shown", "rate"].map((name) => {
      const cell = document.createElement("span");
      cell.className = name;
      element.append(cell);
      return cell;
    });
    this.space.append(element);
    return { element, cells, told: {} };
  }

  fill(shown, chunk, place) {
    const { element, cells: [name, value, rate], told } = shown;
    shown.chunk = chunk;
    if (tell(told, "hidden", chunk === undefined)) element.hidden = chunk === undefined;
    if (chunk === undefined) return;
    const { entry } = chunk;
    const hasChildren = chunk.children.size > 0;
    const open = hasChildren && this.isOpen(chunk);
    if (tell(told, "top", place * HEIGHT)) element.style.transform = `translateY(${place * HEIGHT}px)`;
    if (tell(told, "depth", chunk.depth)) {
      name.style.paddingLeft = `${chunk.depth * 14}px`;
      element.setAttribute("aria-level", String(chunk.depth + 1));
    }
    set(element, "aria-expanded", hasChildren ? String(open) : null);
    set(element, "aria-selected", String(entry !== undefined && entry === this.chosen));
    if (tell(told, "cursor", chunk === this.cursor)) element.classList.toggle("cursor", chunk === this.cursor);
    const label = `${line(chunk.name)}${hasChildren && !open ? `  (${count(chunk.below)})` : ""}`;
    if (tell(told, "name", label)) name.textContent = label;
    if (entry === undefined) {
      told.seen = undefined;
      if (tell(told, "value", "")) value.textContent = "";
      if (tell(told, "rate", "")) rate.textContent = "";
      return;
    }
    if (tell(told, "seen", `${entry.key}\n${entry.count}`)) {
      const { text, soft } = preview(entry);
      if (tell(told, "value", text)) value.textContent = text;
      if (tell(told, "soft", soft)) value.classList.toggle("soft", soft);
      if (tell(told, "title", entry.key)) element.title = clean(entry.key);
    }
    const perSecond = entry.rate > 0 ? short(entry.rate) : "";
    if (tell(told, "rate", perSecond)) rate.textContent = perSecond;
  }

  click(event) {
    const element = event.target.closest(".row");
    const shown = this.lines.find((one) => one.element === element);
    if (!shown?.chunk) return;
    this.cursor = shown.chunk;
    if (shown.chunk.children.size > 0 && shown.chunk.entry === undefined) this.toggle(shown.chunk);
    else if (shown.chunk.children.size > 0 && event.target === shown.cells[0] && event.offsetX < shown.chunk.depth * 14 + 18) {
      this.toggle(shown.chunk);
    }
    this.pick(shown.chunk);
  }

  pick(chunk) {
    if (chunk.entry) { this.chosen = chunk.entry; this.choose(chunk.entry); }
    this.onChange();
  }

  toggle(chunk, open = !this.isOpen(chunk)) {
    chunk.opened = open;
    this.version = -1;
    this.onChange();
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.rows.length === 0) return;
    const at = Math.max(0, this.rows.indexOf(this.cursor));
    const chunk = this.rows[at];
    const page = Math.max(1, Math.floor(this.height / HEIGHT) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -at, End: this.rows.length };
    if (event.key in steps) this.go(at + steps[event.key]);
    else if (event.key === "ArrowRight" && chunk.children.size > 0) {
      if (this.isOpen(chunk)) this.go(at + 1);
      else this.toggle(chunk, true);
    } else if (event.key === "ArrowLeft") {
      if (chunk.children.size > 0 && this.isOpen(chunk)) this.toggle(chunk, false);
      else if (chunk.parent?.parent) this.go(this.rows.indexOf(chunk.parent));
    } else if (event.key === "Enter" || event.key === " ") {
      if (chunk.entry === undefined) this.toggle(chunk);
      this.pick(chunk);
    } else return;
    event.preventDefault();
  }

  go(place) {
    const at = Math.min(this.rows.length - 1, Math.max(0, place));
    this.cursor = this.rows[at];
    const top = at * HEIGHT;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + HEIGHT > this.element.scrollTop + this.height) this.element.scrollTop = top + HEIGHT - this.height;
    this.pick(this.cursor);
  }
}

/** Notes what an element shows; whether that is new. Elements themselves are not read. */
function tell(told, name, value) {
  if (told[name] === value) return false;
  told[name] = value;
  return true;
}

function set(element, name, value) {
  if (element.getAttribute(name) === value) return;
  if (value === null) element.removeAttribute(name);
  else element.setAttribute(name, value);
}
