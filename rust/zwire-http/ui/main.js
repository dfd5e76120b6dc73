// The live page of a node: connects, and shows what comes at most ten times in a second, whatever the number of samples.

import { open } from "/zwire.js";
import { bytes, clean, count, line, short } from "./format.js";
import { Graph, nameOf } from "./graph.js";
import { Keys, MOST_KEYS } from "./keys.js";
import { Network, PERIOD } from "./network.js";
import { Tree } from "./tree.js";
import { Surface, ValueView, drawLines } from "./value.js";

const find = (id) => document.getElementById(id);
const TOKEN = "zwire-token";
/** Rows of a table. */
const ROWS = 200;
/** Milliseconds between two pictures of the tree, of the selected value, and of the figures. */
const TREE = 100;
const VALUE = 200;
const FIGURES = 1000;
/** Milliseconds between a look and the next one after a change. */
const SOON = 300;
/** Seconds for which the outcome of a query is shown. */
const TOLD = 10;
/** Replies to a query for values that are read. */
const REPLIES = 10_000;

const keys = new Keys();
const value = new ValueView(keys);
const tree = new Tree(find("tree"), keys, (entry) => { value.select(entry); schedule(); });
const graph = new Graph(find("graph"), find("graph-tip"), (zid) => { choose(zid); show("nodes"); });
let network;
let session;
let subscriber;
let isPaused = false;
/** Whether the page is hidden for so long that it receives nothing. */
let isAsleep = false;
/** Problems that stay until the next connection: of the subscription, and of tokens. */
const problems = { keys: "", tokens: "" };
/** Outcome of the last query for values, and the time in seconds until which it is shown. */
let asked = { text: "", until: 0 };

const seconds = () => performance.now() / 1000;

// Pictures

let isScheduled = false, hasNews = true, lastTree = 0, lastValue = 0;

/** Asks for a picture before the next time that the screen is drawn. */
function schedule() {
  hasNews = true;
  request();
}
tree.onChange = () => { lastTree = 0; schedule(); };
graph.onChange = request;

function request() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(frame);
}

function frame(now) {
  isScheduled = false;
  if (hasNews && now - lastTree >= TREE) {
    hasNews = false;
    lastTree = now;
    tree.render();
    if (now - lastValue >= VALUE) {
      lastValue = now;
      value.render();
    } else hasNews = true;
  }
  graph.frame(now);
  if (hasNews || graph.isMoving) request();
}

let last = { time: seconds(), samples: 0, bytes: 0 };

function figures() {
  const now = seconds();
  const passed = Math.max(now - last.time, 1e-3);
  keys.tick(passed);
  const rate = Math.max(0, keys.samples - last.samples) / passed;
  const octets = Math.max(0, keys.bytes - last.bytes) / passed;
  last = { time: now, samples: keys.samples, bytes: keys.bytes };
  say("figure-rate", short(rate));
  say("figure-bytes", short(octets));
  counts();
  const parts = problems.keys === "" ? [] : [problems.keys];
  if (keys.refused > 0) parts.push(`${count(keys.refused)} samples are not shown: the page keeps ${count(MOST_KEYS)} keys; narrow the subscription.`);
  if (now < asked.until) parts.push(asked.text);
  if (network?.missed > 0) parts.push(`${count(network.missed)} samples were dropped before they reached a page: it reads too slowly.`);
  if (isPaused) parts.push("Paused: what is published meanwhile is not shown.");
  if (keys.entries.size === 0 && parts.length === 0 && session) parts.push("Nothing was published since the page was opened. Ask queries the values of storages.");
  say("keys-note", parts.join(" "));
  if (network) {
    renderTokens();
    schedule();
  }
}

function counts() {
  say("figure-keys", count(keys.entries.size));
  say("figure-nodes", count(network?.nodes.size ?? 0));
  say("figure-links", count(network ? network.edges().length : 0));
  say("figure-tokens", count(network?.tokens.size ?? 0));
  say("figure-drops", short(network?.dropRate ?? 0));
}

function say(id, text) {
  const element = find(id);
  if (element.textContent !== text) element.textContent = text;
}

// Tables: rows are kept as long as what they tell of, and cells change only if their texts do.

class Table {
  constructor(id, make) {
    this.body = find(id);
    this.make = make;
    this.rows = new Map();
  }
  /** Shows items with an `id`; returns how many there is no room for. */
  show(items) {
    const shown = items.slice(0, ROWS);
    const wanted = new Set(shown.map((item) => item.id));
    for (const [id, row] of this.rows) if (!wanted.has(id)) { row.element.remove(); this.rows.delete(id); }
    let before = null;
    for (const item of shown) {
      let row = this.rows.get(item.id);
      if (row === undefined) {
        row = { element: document.createElement("tr"), texts: [] };
        row.update = this.make(row, item);
        this.rows.set(item.id, row);
      }
      const place = before === null ? this.body.firstChild : before.nextSibling;
      if (row.element !== place) this.body.insertBefore(row.element, place);
      row.update(item);
      before = row.element;
    }
    return items.length - shown.length;
  }
}

/** Fills the cells of a row with texts. */
function cells(row, texts, numbers = []) {
  texts.forEach((text, at) => {
    const cell = row.element.children[at] ?? row.element.appendChild(document.createElement("td"));
    if (row.texts[at] === text) return;
    row.texts[at] = text;
    cell.textContent = text;
    if (numbers.includes(at)) cell.className = "number";
    else if (text.length > 24) cell.title = text;
  });
}

const more = (number) => (number > 0 ? `${count(number)} more are not listed.` : "");
const perSecond = (rate) => (rate === undefined ? "\u2013" : `${bytes(rate)}/s`);

const linkTable = new Table("links", (row) => {
  let surface;
  return (link) => {
    const queue = link.waiting === undefined ? "\u2013" : `${bytes(link.waiting)}${link.dropped ? `, ${short(link.dropped)} dropped` : ""}`;
    const ends = link.src ? `${line(link.src, 60)} \u2013 ${line(link.dst, 60)}` : line(link.dst, 60);
    cells(row, [nameOf(link.node), nameOf(link.neighbour), ends, perSecond(link.tx), perSecond(link.rx), queue], [3, 4]);
    if (surface === undefined) {
      const canvas = document.createElement("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", "octets per second in the last minutes");
      row.element.appendChild(document.createElement("td")).append(canvas);
      surface = new Surface(canvas);
      surface.onFit = () => row.draw();
      row.draw = () => {
        const area = { left: 1, top: 2, width: surface.width - 2, height: surface.height - 4 };
        drawLines(surface.clear(), [row.points], area, true);
      };
    }
    row.points = link.points;
    if (surface.width > 0) row.draw();
  };
});
const nodeTable = new Table("nodes", (row, node) => {
  row.element.tabIndex = 0;
  row.element.addEventListener("click", () => choose(node.zid));
  row.element.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(node.zid); });
  return (node) => {
    cells(row, [
      node.zid, node.role, line(node.name, 60), node.tells ? line(node.version, 60) : "tells nothing",
      node.tells ? String(node.neighbours) : "", node.locators.map((one) => line(one, 80)).join(", "),
    ]);
    row.element.classList.toggle("chosen", node.zid === graph.chosen);
  };
});
const tokenTable = new Table("tokens", (row) => ({ key, since }) => {
  cells(row, [line(key, 300), new Date(performance.timeOrigin + since * 1000).toLocaleTimeString()]);
});
const dropTable = new Table("drops", (row) => (drop) => {
  cells(row, [nameOf(drop.node), line(drop.name), drop.reason, count(drop.total), short(drop.rate)], [3, 4]);
});

function choose(zid) {
  graph.choose(zid);
  if (network) renderNodes();
}

function renderNodes() {
  const order = { router: 0, peer: 1, client: 2 };
  const nodes = [...network.nodes.values()].map((node) => Object.assign(node, { id: node.zid }));
  const rank = (node) => (node.zid === graph.chosen ? -1 : order[node.role]);
  nodes.sort((a, b) => rank(a) - rank(b) || (a.zid < b.zid ? -1 : 1));
  say("nodes-note", more(nodeTable.show(nodes)));
}

function renderTokens() {
  if (find("panel-tokens").hidden) return;
  const tokens = [...network.tokens].map(([key, since]) => ({ id: key, key, since }));
  tokens.sort((a, b) => (a.key < b.key ? -1 : 1));
  if (problems.tokens !== "") say("tokens-note", problems.tokens);
  else say("tokens-note", tokens.length === 0 ? "No liveliness token is alive." : more(tokenTable.show(tokens) + network.tokensRefused));
  if (tokens.length === 0) tokenTable.show([]);
}

function renderNetwork() {
  const flow = (link) => (link.tx ?? 0) + (link.rx ?? 0);
  const links = [...network.links.values()].sort((a, b) => flow(b) - flow(a) || (a.id < b.id ? -1 : 1));
  if (!find("panel-links").hidden) {
    const left = linkTable.show(links);
    const silent = links.some((link) => link.tx === undefined) ? " Some nodes do not tell rates." : "";
    say("links-note", links.length === 0 ? "No node tells of a link: the admin space may be off." : `${more(left)}${silent}`.trim());
  }
  if (!find("panel-nodes").hidden) renderNodes();
  if (!find("panel-drops").hidden) {
    const drops = [...network.drops.values()].sort((a, b) => b.isLoss - a.isLoss || b.rate - a.rate || b.total - a.total);
    const left = dropTable.show(drops);
    say("drops-note", drops.length === 0 ? "No node tells of a drop." : more(left));
  }
  if (!find("panel-log").hidden) {
    const text = network.log.map(([zid, told]) => `${zid.slice(0, 8)}  ${line(told, 2048)}`).join("\n");
    const log = find("log");
    if (log.textContent !== text) {
      log.textContent = text;
      log.scrollTop = log.scrollHeight;
    }
    say("log-note", text === "" ? "No node serves its log." : "");
  }
  graph.update(network);
  counts();
  const left = network.left + graph.hidden;
  say("graph-note", network.nodes.size === 0 ? "No node answers in the admin space: it may be off, or the rules hide it."
    : `${count(network.nodes.size)} nodes, ${count(network.edges().length)} linked pairs${left > 0 ? `; ${count(left)} more are not drawn` : ""}`);
}

// Tabs

const tabs = [...document.querySelectorAll('[role="tab"]')];

function show(name, focus = false) {
  for (const tab of tabs) {
    const isChosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    find(tab.getAttribute("aria-controls")).hidden = !isChosen;
    if (isChosen && focus) tab.focus();
  }
  if (network) {
    renderNetwork();
    renderTokens();
    if (name === "log") look();
  }
}
for (const [at, tab] of tabs.entries()) {
  tab.addEventListener("click", () => show(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) show(tabs[(at + step + tabs.length) % tabs.length].id.slice(4), true);
  });
}

// Connection

function state(word, text) {
  find("state").dataset.state = word;
  say("state", text);
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const storedToken = () => sessionStorage.getItem(TOKEN) ?? undefined;

/** Whether the server wants another token. A WebSocket tells its page no reason. */
async function isRefused(token) {
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  try {
    const answer = await fetch("/metrics", { method: "HEAD", headers, credentials: "omit", cache: "no-store" });
    return answer.status === 401;
  } catch {
    return false;
  }
}

/** Waits for a token. */
function askForToken(problem) {
  const form = find("login");
  form.hidden = false;
  say("login-problem", problem);
  find("token").focus();
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      form.hidden = true;
      sessionStorage.setItem(TOKEN, find("token").value.trim());
      find("token").value = "";
      resolve();
    }, { once: true });
  });
}

async function run() {
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/`;
  let wait = 500;
  for (;;) {
    const token = storedToken();
    try {
      session = await open(address, { token });
      wait = 500;
      await begin();
      say("node", "");
      state("lost", `connection lost: ${line(await session.closed)}`);
    } catch (error) {
      session?.close();
      state("lost", line(String(error.message ?? error)));
      if (await isRefused(token)) {
        state("lost", "a token is needed");
        await askForToken(token === undefined ? "" : "The server does not accept this token.");
        continue;
      }
    }
    session = undefined;
    await pause(wait);
    wait = Math.min(10_000, 2 * wait);
    state("wait", "connecting");
  }
}

async function begin() {
  const { zid } = await session.info();
  network = new Network(session, zid);
  say("node", `through ${zid}`);
  const here = session;
  problems.tokens = "";
  await subscribe();
  state("open", "live");
  for (const key of ["**", "@ros2_lv/**"]) {
    // Rules may hide tokens; the rest of the page works.
    await session.watch(key, (sample) => { if (here === session) network.token(sample, seconds()); })
      .catch((error) => { problems.tokens = line(error.message, 300); });
  }
  // Neighbours are seen at once, and nodes behind them at the next look. Rules may hide them.
  await session.onTransports(({ kind, transport }) => {
    if (here !== session) return;
    if (kind === "delete") network.lost(transport.zid);
    isOutdated = true;
    look();
  }, { history: false }).catch(() => {});
  looking(here);
}

let turn = 0;

async function subscribe() {
  const key = find("key").value.trim();
  const before = subscriber;
  const mine = turn += 1;
  subscriber = undefined;
  // It fails if its session has ended.
  await before?.undeclare().catch(() => {});
  if (isPaused || isAsleep || mine !== turn) return;
  try {
    const made = await session.subscribe(key, (sample) => {
      if (mine !== turn) return;
      keys.add(sample, seconds());
      schedule();
    });
    problem("");
    if (mine === turn) subscriber = made;
    else made.undeclare().catch(() => {});
  } catch (error) {
    problem(line(error.message, 300));
  }
}

function problem(text) {
  problems.keys = text;
  find("key").setAttribute("aria-invalid", String(text !== ""));
  figures();
}

let isLooking = false, isOutdated = false;

async function look() {
  if (isLooking || !session || document.hidden) return;
  isLooking = true;
  try {
    do {
      isOutdated = false;
      await network.look(!find("panel-log").hidden);
      renderNetwork();
      await tellRouter();
      // Many nodes may come at once.
      if (isOutdated) await pause(SOON);
    } while (isOutdated && session);
  } catch (error) {
    say("graph-note", line(String(error.message)));
  } finally {
    isLooking = false;
  }
}

/** Tells whether a node without neighbours serves the page: a client whose router is away. */
async function tellRouter() {
  const { routers, peers } = await session.info();
  const isAlone = routers.length + peers.length === 0;
  state(isAlone ? "wait" : "open", isAlone ? "no router is connected" : "live");
}

async function looking(here) {
  while (session === here) {
    await look();
    await pause(PERIOD);
  }
}

// Tools

find("subscription").addEventListener("submit", (event) => event.preventDefault());
find("key").addEventListener("change", () => { if (session) { clear(); subscribe(); } });
find("filter").addEventListener("input", () => tree.setFilter(find("filter").value));
find("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  find("pause").setAttribute("aria-pressed", String(isPaused));
  if (session) subscribe();
  figures();
});
find("clear").addEventListener("click", clear);

let falling;
document.addEventListener("visibilitychange", () => {
  clearTimeout(falling);
  if (document.hidden) falling = setTimeout(() => sleep(true), window.zwirePage.idle);
  else if (isAsleep) sleep(false);
});

function sleep(falls) {
  isAsleep = falls;
  if (session) subscribe();
}

function clear() {
  keys.clear();
  last = { time: seconds(), samples: 0, bytes: 0 };
  tree.cursor = undefined;
  tree.chosen = undefined;
  value.select(undefined);
  figures();
  schedule();
}

find("ask").addEventListener("click", async () => {
  if (!session) return;
  let replies = 0;
  try {
    for await (const reply of session.get(find("key").value.trim())) {
      replies += 1;
      if (replies > REPLIES) break;
      if (reply.key) keys.add(reply, seconds());
      schedule();
    }
    tell(`${count(replies)} replies to the query.`);
  } catch (error) {
    tell(line(error.message, 300));
  }
});

function tell(text) {
  asked = { text, until: seconds() + TOLD };
  figures();
}

const mayWrite = document.documentElement.dataset.access === "write";
find("write").hidden = !mayWrite;
async function write(act, done) {
  try {
    await act();
    say("write-result", `${done} at ${new Date().toLocaleTimeString()}`);
  } catch (error) {
    say("write-result", clean(error.message));
  }
}
find("write").addEventListener("submit", (event) => {
  event.preventDefault();
  const options = { encoding: find("write-encoding").value, confirm: true };
  write(() => session.put(find("write-key").value.trim(), find("write-value").value, options), "Published");
});
find("write-delete").addEventListener("click", () => {
  write(() => session.delete(find("write-key").value.trim(), { confirm: true }), "Deleted");
});
tree.choose = (entry) => {
  value.select(entry);
  if (mayWrite) find("write-key").value = entry.key;
  schedule();
};

// What a test reads, and milliseconds after which a hidden page receives nothing.
window.zwirePage = { keys, tree, graph, idle: 60_000, get network() { return network; } };

setInterval(figures, FIGURES);
figures();
run();
