// One column of hits: an index, a way to search it, and what that finds.

const STEP = 10;
const MOST = 1000;
const MODES = [
  ["dense", "Meaning"],
  ["keyword", "Keywords"],
  ["hybrid", "Hybrid"],
];

class Pane {
  constructor(number, indexes, changed) {
    this.k = STEP;
    this.stats = null;
    this.changed = changed;
    this.choice = make("select", { aria: { label: "Index" }, hidden: indexes.length < 2 });
    this.choice.append(...indexes.map((one) => make("option", { value: one.name }, `${one.name} (${one.model})`)));
    this.modes = make("fieldset", { className: "modes" });
    for (const [mode, name] of MODES) {
      const radio = make("input", { type: "radio", name: `mode-${number}`, value: mode });
      this.modes.append(make("label", {}, radio, name));
    }
    this.status = make("p", { className: "status", role: "status" });
    this.body = make("div");
    const controls = make("div", { className: "controls" }, this.choice, this.modes, this.status);
    this.root = make("section", { className: "pane", aria: { label: `Hits ${number + 1}` } }, controls, this.body);
    this.root.addEventListener("change", () => changed(this));
  }

  get index() {
    return this.choice.value;
  }

  get mode() {
    return this.modes.querySelector(":checked").value;
  }

  choose(index, mode) {
    if ([...this.choice.options].some((one) => one.value === index)) this.choice.value = index;
    const radio = [...this.modes.querySelectorAll("input")].find((one) => one.value === mode);
    (radio ?? this.modes.querySelector("input")).checked = true;
  }

  get items() {
    return [...this.body.querySelectorAll(".hit")];
  }

  // Ask anew; what was asked before is dropped, also where its answer comes later.
  async search({ query, like, where }) {
    this.asked?.abort();
    const asked = new AbortController();
    this.asked = asked;
    this.modes.disabled = like !== null;
    this.root.classList.add("busy");
    try {
      const name = this.index;
      const stats = await this.learn(name);
      const wanted = { k: this.k, text: false, ...(Object.keys(where).length && { where }) };
      const begun = performance.now();
      let found = null;
      if (like !== null) found = await askLike(name, { ...wanted, ...like }, asked.signal);
      else if (query !== "") {
        const abstain = stats.can_abstain && this.insisted !== query;
        found = await askHits(name, { ...wanted, query, mode: this.mode, abstain }, asked.signal);
      }
      if (asked.signal.aborted) return;
      if (found === null) this.showAbout(stats);
      else if (found.reason) this.showNoAnswer(query, found.reason);
      else this.showHits(found, stats, performance.now() - begun);
    } catch (error) {
      if (!asked.signal.aborted) this.showError(error);
    } finally {
      if (this.asked === asked) this.root.classList.remove("busy");
    }
  }

  async learn(name) {
    if (this.stats?.name !== name) this.stats = await askStats(name);
    return this.stats;
  }

  showAbout(stats) {
    this.status.textContent = "";
    this.body.replaceChildren(drawAbout(stats));
  }

  showHits(found, stats, milliseconds) {
    const list = make("ol", { className: "hits" });
    list.append(...found.hits.map((hit) => drawHit(hit, stats.most_percentile)));
    const few = found.hits.length;
    const truncated = found.query_truncated ? " · the query was truncated" : "";
    const reasons = found.warnings.map((reason) => ` · ${reason}`).join("");
    const hits = few === 0 ? "No hits" : few === 1 ? "1 hit" : `${few} hits`;
    this.status.textContent = `${hits} in ${whole(found.documents)} documents · ${Math.round(milliseconds)} ms${truncated}${reasons}`;
    const more = make("button", { type: "button", className: "more", data: { act: "more" } }, "More hits");
    this.body.replaceChildren(list, ...(few === this.k && few < MOST ? [more] : []));
  }

  showNoAnswer(query, reason) {
    this.status.textContent = "No document seems to answer this.";
    const show = make("button", { type: "button", className: "more", title: reason }, "Show the nearest documents");
    show.addEventListener("click", () => {
      this.insisted = query;
      this.changed(this);
    });
    this.body.replaceChildren(show);
  }

  showError(error) {
    this.status.textContent = "";
    this.body.replaceChildren(make("p", { className: "alert", role: "alert" }, error.message));
    if (error.status === 401) this.changed(this, error);
  }

  async toggleWhole(item) {
    const button = item.querySelector("[data-act=whole]");
    if (!button) return;
    const open = item.querySelector(".whole");
    if (!open) {
      const document = await askDocument(this.index, item.hit.id);
      if (!item.isConnected || item.querySelector(".whole")) return;
      const text = document === null ? "The document is no longer in the index." : document.text;
      item.querySelector(".snippet").after(drawWhole(text, document && item.hit.passage));
      item.querySelector(".whole mark")?.scrollIntoView({ block: "nearest" });
    } else open.remove();
    item.querySelector(".snippet").hidden = !open;
    button.setAttribute("aria-expanded", String(!open));
    button.textContent = open ? "Full text" : "Snippet";
  }
}
