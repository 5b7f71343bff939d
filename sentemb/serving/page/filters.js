// Filters: one group of controls for each field of the index's metadata.

const DAY = /^\d{4}-\d\d-\d\d$/;

const groups = new Map(); // by field, a function that reads its condition

// A text that almost every document has for itself is no filter.
const isUseful = (field) => field.complete || field.type !== "text" || field.values[0]?.documents > 1;

function drawFilters(given) {
  groups.clear();
  const fields = given.filter(isUseful);
  const box = document.getElementById("fields");
  box.replaceChildren(...fields.map(drawField));
  document.getElementById("filters").hidden = fields.length === 0;
}

function drawField(field) {
  const group = make("fieldset", {}, make("legend", { dir: "auto" }, field.name));
  if (field.type === "number" || field.type === "date") group.append(drawRange(field));
  else if (field.complete) group.append(drawValues(field));
  else group.append(drawText(field));
  return group;
}

function drawRange(field) {
  const isDate = field.type === "date";
  const days = isDate && DAY.test(field.least) && DAY.test(field.most);
  const input = (label, value) =>
    make("input", {
      type: days ? "date" : isDate ? "text" : "number",
      step: "any",
      placeholder: value,
      ...(days ? { min: field.least, max: field.most } : {}),
      aria: { label: `${field.name}, ${label}` },
    });
  const [from, to] = [input("from", field.least), input("to", field.most)];
  const read = (text) => (isDate ? text : Number(text));
  groups.set(field.name, {
    read: () => ({ ...(from.value && { ">=": read(from.value) }), ...(to.value && { "<=": read(to.value) }) }),
    write: (condition) => {
      from.value = condition[">="] ?? "";
      to.value = condition["<="] ?? "";
    },
  });
  return days ? make("div", { className: "days" }, from, to) : make("div", { className: "from-to" }, from, "–", to);
}

function drawValues(field) {
  const boxes = field.values.map((one) => {
    const box = make("input", { type: "checkbox" });
    box.value_of = one.value;
    return [box, make("label", {}, box, make("span", { dir: "auto" }, shortened(one.value, LONGEST_FACT)), count(one.documents))];
  });
  groups.set(field.name, {
    read: () => {
      const wanted = boxes.filter(([box]) => box.checked).map(([box]) => box.value_of);
      return wanted.length ? { in: wanted } : {};
    },
    write: (condition) => {
      for (const [box] of boxes) box.checked = (condition.in ?? []).includes(box.value_of);
    },
  });
  return make("div", { className: "values" }, ...boxes.map(([, label]) => label));
}

function drawText(field) {
  const list = make("datalist", { id: `values-${groups.size}` });
  list.append(...field.values.map((one) => make("option", { value: one.value })));
  const input = make("input", { type: "text", dir: "auto", placeholder: "exact value", aria: { label: field.name } });
  input.setAttribute("list", list.id);
  groups.set(field.name, {
    read: () => (input.value ? { "=": input.value } : {}),
    write: (condition) => {
      input.value = condition["="] ?? "";
    },
  });
  return make("div", {}, input, list);
}

const count = (documents) => make("span", { className: "count" }, whole(documents));

function readFilters() {
  const found = [...groups].map(([name, group]) => [name, group.read()]);
  return Object.fromEntries(found.filter(([, condition]) => Object.keys(condition).length));
}

function writeFilters(where) {
  for (const [name, group] of groups) group.write(where[name] ?? {});
}
