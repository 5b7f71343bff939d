// The page: what is asked, by keyboard and mouse, and kept in the address.

const DELAY = 120;
const at = (id) => document.getElementById(id);
const query = at("query");
const panes = [];
let like = null; // {id, label}, in the first pane's index
let timer = 0;
let drawn = null; // the index whose fields the filters are

function searchSoon(delay = 0) {
  clearTimeout(timer);
  timer = setTimeout(search, delay);
}

function search() {
  remember();
  const where = readFilters();
  const active = Object.keys(where).length;
  at("counted").textContent = active ? `(${active})` : "";
  at("clear").hidden = active === 0;
  at("like").hidden = like === null;
  at("likeness").textContent = like?.label ?? "";
  const wanted = { query: query.value.trim(), where };
  for (const pane of panes) {
    pane.search({ ...wanted, like: like !== null && pane.index === like.index ? { id: like.id } : null });
  }
}

function searchAnew(delay = 0) {
  for (const pane of panes) pane.k = STEP;
  searchSoon(delay);
}

async function changed(pane, error) {
  if (error) {
    at("door").hidden = false;
    at("key").focus();
    return;
  }
  if (pane === panes[0]) await showFilters({});
  searchAnew();
}

async function showFilters(where) {
  const name = panes[0].index;
  if (drawn === name) return;
  const stats = await panes[0].learn(name).catch(() => null);
  if (stats === null || panes[0].index !== name) return;
  drawn = name;
  drawFilters(stats.fields);
  writeFilters(where);
}

function setPanes(count, chosen = []) {
  while (panes.length > count) panes.pop().root.remove();
  while (panes.length < count) {
    const pane = new Pane(panes.length, indexes, changed);
    panes.push(pane);
    at("panes").append(pane.root);
    pane.choose(...(chosen[panes.length - 1] ?? second(panes[0])));
  }
  at("panes").classList.toggle("two", count === 2);
  at("beside").setAttribute("aria-pressed", String(count === 2));
}

// What to lay beside the first: the other index, or the other way to search.
function second(first) {
  const other = indexes.find((one) => one.name !== first.index);
  return other ? [other.name, first.mode] : [first.index, first.mode === "dense" ? "keyword" : "dense"];
}

function remember() {
  const state = new URLSearchParams();
  if (query.value) state.set("q", query.value);
  for (const pane of panes) state.append("in", JSON.stringify([pane.index, pane.mode]));
  const where = readFilters();
  if (Object.keys(where).length) state.set("where", JSON.stringify(where));
  history.replaceState(null, "", `#${state}`);
}

function remembered() {
  const state = new URLSearchParams(location.hash.slice(1));
  const read = (text) => {
    try {
      return JSON.parse(text);
    } catch {
      return null;
    }
  };
  const chosen = state.getAll("in").map(read).filter(Array.isArray).slice(0, 2);
  const where = read(state.get("where"));
  return { text: state.get("q") ?? "", chosen, where: where instanceof Object ? where : {} };
}

function moreLike(pane, item) {
  const { id, snippet } = item.hit;
  like = { id, index: pane.index, label: shortened(snippet?.text || id, LONGEST_TITLE) };
  searchAnew();
  query.focus();
}

function unlike() {
  like = null;
  searchAnew();
  query.focus();
}

at("panes").addEventListener("click", (event) => {
  const act = event.target.closest("button")?.dataset.act;
  const pane = panes.find((one) => one.root.contains(event.target));
  const item = event.target.closest(".hit");
  if (act === "whole") pane.toggleWhole(item).catch((error) => pane.showError(error));
  else if (act === "like") moreLike(pane, item);
  else if (act === "more") {
    pane.k = Math.min(MOST, pane.k + STEP);
    searchSoon();
  }
});

function move(event, step, sideways) {
  const item = document.activeElement.closest?.(".hit");
  const pane = panes.find((one) => one.root.contains(item)) ?? panes[0];
  const place = item ? pane.items.indexOf(item) : -1;
  if (item === null && document.activeElement !== query) return;
  const beside = sideways ? panes[panes.indexOf(pane) + step] : pane;
  if (beside === undefined || (sideways && !item)) return;
  const next = sideways ? Math.min(place, beside.items.length - 1) : place + step;
  event.preventDefault();
  if (next < 0) query.focus();
  else beside.items[next]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input:not([type=checkbox], [type=radio]), select");
  const item = event.target.matches(".hit") ? event.target : null;
  const pane = panes.find((one) => one.root.contains(item));
  if (event.key === "/" && !typing) {
    event.preventDefault();
    query.select();
    query.focus();
  } else if (event.key === "Escape") leave(event);
  else if (typing && event.target !== query) return;
  else if (event.key === "ArrowDown") move(event, 1);
  else if (event.key === "ArrowUp" && event.target !== query) move(event, -1);
  else if (event.key === "ArrowRight" && item) move(event, 1, true);
  else if (event.key === "ArrowLeft" && item) move(event, -1, true);
  else if (event.key === "Enter" && item) pane.toggleWhole(item).catch((error) => pane.showError(error));
  else if (event.key.toLowerCase() === "m" && item) {
    event.preventDefault();
    moreLike(pane, item);
  }
});

// Esc leaves a hit, then a likeness, then the query.
function leave(event) {
  event.preventDefault();
  if (event.target !== query) query.focus();
  else if (like !== null) unlike();
  else {
    query.value = "";
    searchAnew();
  }
}

at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  like = null;
  searchAnew();
});
query.addEventListener("input", (event) => {
  if (event.isComposing) return;
  like = null;
  searchAnew(DELAY);
});
query.addEventListener("compositionend", () => searchAnew(DELAY));
at("unlike").addEventListener("click", unlike);
at("fields").addEventListener("input", () => searchAnew(DELAY));
at("clear").addEventListener("click", () => {
  writeFilters({});
  searchAnew();
});
at("beside").addEventListener("click", () => {
  setPanes(panes.length === 2 ? 1 : 2);
  searchAnew();
});
at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, at("key").value.trim());
  at("key").value = "";
  at("door").hidden = true;
  begin();
});

let indexes = [];

async function begin() {
  const wide = matchMedia("(min-width: 60rem)");
  at("filters").open = wide.matches;
  wide.addEventListener("change", () => (at("filters").open = wide.matches));
  try {
    ({ indexes } = await ask("v1/indexes"));
  } catch (error) {
    at("panes").replaceChildren(make("p", { className: "alert", role: "alert" }, error.message));
    at("door").hidden = error.status !== 401;
    if (error.status === 401) at("key").focus();
    return;
  }
  if (indexes.length === 0) {
    at("panes").replaceChildren(make("p", { className: "about" }, "This server does not have an index. Start it with sentemb serve --index FOLDER."));
    return;
  }
  const { text, chosen, where } = remembered();
  at("panes").replaceChildren();
  panes.length = 0;
  drawn = null;
  setPanes(chosen.length || 1, chosen.length ? chosen : [[indexes[0].name, "dense"]]);
  query.value ||= text; // somebody may type already
  await showFilters(where);
  query.focus();
  search();
}

begin();
