// What is drawn of hits. Texts of documents are text nodes, never markup, and keep their direction to themselves.

const FACTS = 12;
const LONGEST_FACT = 80;
const LONGEST_TITLE = 200;

function make(tag, properties = {}, ...children) {
  const { data = {}, aria = {}, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, data);
  for (const [name, value] of Object.entries(aria)) element.setAttribute(`aria-${name}`, value);
  element.append(...children);
  return element;
}

const whole = new Intl.NumberFormat("en").format;
const isolated = (text, className = "") => make("bdi", { className }, text);

function shortened(value, most) {
  const points = Array.from(typeof value === "string" ? value : JSON.stringify(value));
  return points.length > most ? `${points.slice(0, most - 1).join("")}…` : points.join("");
}

// The server counts characters of Unicode, JavaScript counts halves of some.
function marked(text, spans) {
  const points = Array.from(text);
  const parts = [];
  let place = 0;
  for (const [start, stop] of spans) {
    parts.push(points.slice(place, start).join(""), make("mark", {}, points.slice(start, stop).join("")));
    place = stop;
  }
  return [...parts, points.slice(place).join("")];
}

function percent(percentile, most) {
  if (percentile >= most) return `> ${most}%`;
  const digits = percentile < 99 ? 1 : -Math.floor(Math.log10(100 - percentile));
  return `${percentile.toFixed(digits)}%`;
}

function scoreOf(hit, most) {
  const known = hit.percentile !== null;
  const text = known ? percent(hit.percentile, most) : hit.score.toFixed(2);
  const title = known
    ? `Score ${hit.score.toFixed(3)}: more similar than ${percent(hit.percentile, most)} of random pairs of texts`
    : `Score ${hit.score.toFixed(4)}`;
  return make("span", { className: known ? "score" : "score plain", title }, text);
}

function factsOf(metadata) {
  const list = make("ul", { className: "facts" });
  for (const [name, value] of Object.entries(metadata).slice(0, FACTS)) {
    if (name === "title" || value === null) continue;
    const shown = isolated(shortened(value, LONGEST_FACT), "value");
    list.append(make("li", {}, isolated(shortened(name, LONGEST_FACT)), " ", shown));
  }
  return list;
}

function drawHit(hit, most) {
  const { title } = hit.metadata;
  const titled = typeof title === "string" && title.trim() !== "";
  const name = make("h2", {}, isolated(shortened(titled ? title : hit.id, LONGEST_TITLE)));
  if (titled) name.append(isolated(shortened(hit.id, LONGEST_FACT), "id"));
  const snippet = make("p", { className: "snippet", dir: "auto" });
  const { text, start, spans } = hit.snippet ?? { text: "", start: 0, spans: [] };
  const more = start + Array.from(text).length < hit.length;
  snippet.append(...(start > 0 ? ["… "] : []), ...marked(text, spans), ...(more ? [" …"] : []));
  const acts = make("div", { className: "acts" });
  if (start > 0 || more) {
    acts.append(make("button", { type: "button", data: { act: "whole" }, aria: { expanded: "false" } }, "Full text"));
  }
  acts.append(make("button", { type: "button", data: { act: "like" } }, "More like this"));
  const item = make("li", { className: "hit", tabIndex: -1 }, make("div", { className: "head" }, name, scoreOf(hit, most)));
  item.append(snippet, make("div", { className: "foot" }, factsOf(hit.metadata), acts));
  item.hit = hit;
  return item;
}

function drawWhole(text, passage) {
  const box = make("div", { className: "whole", dir: "auto", tabIndex: 0 });
  box.append(...marked(text, passage ? [[passage.start, passage.stop]] : []));
  return box;
}

function drawAbout(stats) {
  const facts = [
    ["Documents", whole(stats.documents)],
    ["Model", isolated(stats.model)],
    ["Index", `${stats.kind}, ${stats.metric}, ${stats.dimension} dimensions`],
    ["Keyword language", stats.language ?? "none"],
  ];
  const list = make("dl");
  for (const [term, value] of facts) list.append(make("dt", {}, term), make("dd", {}, value));
  return make("div", { className: "about" }, list);
}
