"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const isDark = matchMedia("(prefers-color-scheme: dark)");
  const isNarrow = matchMedia("(max-width: 640px)");
  const PRINT_WIDTH_PX = 680;
  const root = document.documentElement;

  // Text from data only ever becomes text: nothing here parses HTML.
  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  const placeOf = (id) => document.getElementById("plot-" + id);

  function draw(id, figure) {
    const isPrinting = root.classList.contains("printing");
    const style = getComputedStyle(root);
    const names = ["--ink", "--rule", "--empty", "--shade"];
    const [ink, rule, empty, shade] = names.map((name) => style.getPropertyValue(name).trim());
    // Black and the palest grey stand for the ink and the empty host in every figure.
    const text = JSON.stringify(figure).replaceAll('"#000000"', `"${ink}"`).replaceAll('"#ececec"', `"${empty}"`);
    const { data: traces, layout } = JSON.parse(text);
    const isFixed = isNarrow.matches; // a finger on a figure scrolls the page
    const axis = { gridcolor: rule, zeroline: false, zerolinecolor: ink, automargin: true, fixedrange: isFixed };
    const font = { family: "system-ui, sans-serif", size: isNarrow.matches ? 11 : 13, color: ink };
    for (const name of ["xaxis", "yaxis"]) {
      layout[name] = { ...axis, ...layout[name], title: { font, ...layout[name].title } };
    }
    Object.assign(layout, {
      font,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 10, r: 10, t: 28, b: 10 },
      hoverlabel: { namelength: -1, bgcolor: shade, font: { color: ink } },
      showlegend: false,
      width: isPrinting ? PRINT_WIDTH_PX : undefined,
      autosize: !isPrinting,
    });
    if (isNarrow.matches && layout.yaxis.ticktext) {
      layout.yaxis.ticktext = layout.yaxis.ticktext.map((text) => text.replace(" (", "<br>("));
    }
    const place = placeOf(id);
    Plotly.react(place, traces, layout, { responsive: true, displayModeBar: false });
    for (const drawn of place.querySelectorAll(".main-svg")) {
      const [width, height] = ["width", "height"].map((name) => drawn.getAttribute(name));
      drawn.setAttribute("viewBox", `0 0 ${width} ${height}`);
      place.style.setProperty("--ratio", `${width} / ${height}`);
    }
  }

  function swatch(style, isFull) {
    const line = { solid: "solid", dash: "dashed", longdash: "dashed", dashdot: "dashed", dot: "dotted" }[style.dash];
    const made = element("span", { className: isFull ? "swatch full" : "swatch" });
    const colour = { "#000000": "var(--ink)", "#ececec": "var(--empty)" }[style.color] ?? style.color;
    if (isFull) made.style.background = colour;
    else made.style.borderTop = `3px ${line} ${colour}`;
    return made;
  }

  // A legend of buttons wraps on a phone and scrolls with the page, which plotly's own does not.
  function addLegend(id, figure) {
    const list = element("ul", { className: "legend" });
    for (const trace of figure.data.filter((each) => each.meta !== undefined)) {
      const button = element("button", { type: "button" }, swatch(trace.line), String(trace.meta));
      button.setAttribute("aria-pressed", String(trace.visible !== false));
      button.addEventListener("click", () => {
        const isShown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(isShown));
        for (const each of figure.data) if (each.legendgroup === trace.legendgroup) each.visible = isShown;
        draw(id, figure);
      });
      list.append(element("li", {}, button));
    }
    placeOf(id).before(list);
  }

  function fill(select, names) {
    names.forEach((name, k) => select.append(element("option", { value: String(k) }, name)));
  }

  const mapLabel = document.getElementById("map-label");
  const mapBy = document.getElementById("map-by");
  const labels = Object.keys(data.maps);

  function chooseMap() {
    const colourings = data.maps[labels[mapLabel.value]].layout.meta;
    const before = mapBy.value;
    mapBy.replaceChildren();
    fill(mapBy, colourings.map((colouring) => colouring.name));
    mapBy.value = before in colourings ? before : "0";
    document.getElementById("map-by-box").hidden = colourings.length < 2;
    placeOf("map").style.minHeight = data.maps[labels[mapLabel.value]].layout.height + "px";
  }

  function drawMap() {
    const { data: [trace], layout: { meta, ...layout } } = data.maps[labels[mapLabel.value]];
    const { names, colours, rows } = meta[mapBy.value];
    const n = colours.length;
    const colorscale = colours.flatMap((colour, k) => [[k / n, colour], [(k + 1) / n, colour]]);
    const z = rows.map((row) => Array.from(row, Number));
    const text = z.map((row) => row.map((k) => names[k]));
    draw("map", { data: [{ ...trace, z, text, colorscale, zmin: -0.5, zmax: n - 0.5 }], layout });
    document.getElementById("map-legend").replaceChildren(
      ...names.map((name, k) => element("li", {}, element("span", {}, swatch({ color: colours[k] }, true), name))),
    );
  }

  const decision = document.getElementById("decision");

  function number(score) {
    if (score === null) return "–";
    if (score === 0) return "0"; // also of -0
    return Number.isInteger(score) ? score.toLocaleString("en") : String(Number(score.toPrecision(5)));
  }

  function pairs(rows) {
    return element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }

  function showDecision() {
    const shown = data.decisions[decision.value];
    const chosen = shown.hosts.find(([, host]) => host === shown.chosen);
    const rows = shown.hosts.map(([rank, host, scores]) => {
      const lost = chosen ? scores.findIndex((score, k) => score !== chosen[2][k]) : -1;
      const cells = scores.map((score, k) =>
        element("td", {}, k === lost ? element("b", {}, number(score)) : number(score)));
      const name = host === shown.chosen ? "✓ " + host : host;
      const row = element("tr", { className: host === shown.chosen ? "chosen" : "" });
      row.append(element("td", { className: "text" }, name), element("td", {}, String(rank)), ...cells);
      return row;
    });
    const names = ["order", ...shown.columns.map(([name]) => name)];
    const head = element("tr", {}, element("th", { scope: "col", className: "text" }, "host"),
      ...names.map((name) => element("th", { scope: "col" }, name)));
    const nExcluded = shown.excluded.reduce((sum, [, n]) => sum + n, 0);
    const more = shown.n_hosts > rows.length ? ` The best ${rows.length} are shown.` : "";
    document.getElementById("decision-box").replaceChildren(
      element("div", { className: "beside" },
        element("div", {}, element("h3", {}, "Request"),
          pairs([["placed at", shown.time], ...shown.request, ["chosen host", shown.chosen ?? "none"]])),
        element("div", {}, element("h3", {}, "What the scores mean"), pairs(shown.columns)),
        element("div", {}, element("h3", {}, `Excluded: ${nExcluded} of ${nExcluded + shown.n_hosts} hosts`),
          pairs(shown.excluded.map(([reason, n]) => [reason, String(n)]))),
      ),
      element("h3", {}, `Possible: ${shown.n_hosts}.${more}`),
      element("div", { className: "wide" },
        element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))),
    );
  }

  function sort(header) {
    const body = header.closest("table").tBodies[0];
    const opposite = { ascending: "descending", descending: "ascending" };
    const direction = opposite[header.ariaSort] ?? header.dataset.first;
    for (const other of header.parentElement.cells) other.ariaSort = "none";
    header.ariaSort = direction;
    const sign = direction === "ascending" ? 1 : -1;
    const valueOf = (row) => row.cells[header.cellIndex].dataset.value;
    const compare = (a, b) => {
      if (a === "" || b === "") return (a === "") - (b === ""); // what is missing comes last either way
      const difference = a - b;
      return sign * (Number.isNaN(difference) ? a.localeCompare(b, "en", { numeric: true }) : difference);
    };
    body.append(...Array.from(body.rows).sort((a, b) => compare(valueOf(a), valueOf(b))));
  }

  const price = document.getElementById("price");

  function whole(value) {
    return (Math.round(value) || 0).toLocaleString("en"); // no -0
  }

  function showMoney() {
    const row = price.closest("p");
    const isKnown = price.value !== "" && Number(price.value) >= 0;
    const [gain, ...ends] = row.dataset.month.split(" ").map((hours) => whole(hours * price.value));
    row.classList.toggle("unset", !isKnown);
    document.getElementById("money").value = isKnown ? gain + (ends.length ? ` (${ends.join(" to ")})` : "") : "–";
  }

  // Plotly takes a second to start, so text and tables are there first; then figures are drawn one after the other.
  const drawing = new Map(Object.entries(data.figures).map(([id, figure]) => [placeOf(id), () => draw(id, figure)]));
  if (mapLabel) drawing.set(placeOf("map"), drawMap);
  const waiting = new Set(drawing.keys());

  function show(place) {
    if (waiting.delete(place)) drawing.get(place)();
  }

  function redraw() {
    for (const [place, drawn] of drawing) if (!waiting.has(place)) drawn();
  }

  function setPrinting(isPrinting) {
    if (root.classList.contains("printing") === isPrinting) return;
    root.classList.toggle("printing", isPrinting);
    if (isPrinting) [...waiting].forEach(show);
    redraw();
  }

  for (const [id, figure] of Object.entries(data.figures)) {
    placeOf(id).style.minHeight = figure.layout.height + "px";
    if (figure.data.some((trace) => trace.meta !== undefined)) addLegend(id, figure);
  }
  if (price) price.addEventListener("input", showMoney);
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sort(button.closest("th")));
  }
  for (const box of document.querySelectorAll(".wide")) {
    const words = element("p", { className: "more" }, "Further columns: scroll the table to the right →");
    box.before(words);
    new ResizeObserver(() => words.classList.toggle("needed", box.scrollWidth > box.clientWidth + 1)).observe(box);
  }
  if (mapLabel) {
    fill(mapLabel, labels);
    chooseMap();
    mapLabel.addEventListener("change", () => { chooseMap(); drawMap(); });
    mapBy.addEventListener("change", drawMap);
  }
  if (decision) {
    fill(decision, data.decisions.map((each) => `${each.time}, ${each.label}: ${(each.request[0] ?? [""]).at(-1)}`));
    decision.addEventListener("change", showDecision);
    showDecision();
  }
  requestAnimationFrame(() => setTimeout(() => {
    document.head.append(element("script", { textContent: document.getElementById("plotly").textContent }));
    for (const place of drawing.keys()) setTimeout(() => show(place));
    isDark.addEventListener("change", redraw);
    isNarrow.addEventListener("change", redraw);
    matchMedia("print").addEventListener("change", (print) => setPrinting(print.matches));
    addEventListener("beforeprint", () => setPrinting(true));
    addEventListener("afterprint", () => setPrinting(false));
  }));
})();
