"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data-json").textContent);
  const by = (id) => document.getElementById(id);
  const KINDS = { f4: Float32Array, i4: Int32Array };

  function unpack(packed) {
    const text = atob(packed.data);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
    return new KINDS[packed.kind](bytes.buffer);
  }
  // Long columns are packed; short lists and numbers are as they are.
  const unpackFields = (fields) => fields && Object.fromEntries(
    Object.entries(fields).map(([key, v]) => [key, v && v.data ? unpack(v) : v])
  );
  const allObjects = [...Array(data.n).keys()];

  // Plotly reads a few tags and entities in its texts; a name is only text.
  const plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);
  const nameOf = (i) => (data.names ? data.names[i] : `object ${i}`);
  const number = (value, digits = 4) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const rounded = Number(value.toPrecision(digits));
    return String(rounded).replace("-", "−");
  };

  // --- appearance ---------------------------------------------------------------------------
  const LIGHTER = {
    "#000000": "#e8eaed", "#332288": "#9a8cf0", "#882255": "#e0679b", "#555555": "#b5bcc4",
    "#0072B2": "#1f86cf", "#D55E00": "#f0803c", "#009E73": "#2fc79b", "#999933": "#b8b84a",
  };
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const shade = (colour) => (isDark() && LIGHTER[colour]) || colour;
  const css = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const hasWebGL = (() => {
    try {
      return Boolean(document.createElement("canvas").getContext("webgl"));
    } catch {
      return false;
    }
  })();
  // WebGL draws more points than this: SVG is slow.
  const MOST_SVG = 3000;
  const scatter = (count) => (count > MOST_SVG && hasWebGL ? "scattergl" : "scatter");

  function axis(title, more = {}) {
    return {
      title: { text: title, standoff: 8 }, automargin: true, gridcolor: css("--grid"),
      linecolor: css("--line"), zerolinecolor: css("--line"), ...more,
    };
  }

  function draw(id, traces, layout) {
    const margin = { l: 62, r: 14, t: 30, b: 46 };
    const legend = { orientation: "h", y: -0.2, yanchor: "top", x: 0, itemsizing: "constant",
      traceorder: "normal" };
    return Plotly.react(by(id), traces, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin,
      font: { color: css("--text"), size: 13, family: "system-ui, DejaVu Sans, sans-serif" },
      hoverlabel: { bgcolor: css("--card"), font: { color: css("--text") }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--text") },
      ...layout, legend: { ...legend, ...(layout.legend || {}) },
    }, {
      responsive: true, displaylogo: false, displayModeBar: "hover",
      // Named one by one: Plotly's own choice has a button that sends the picture to a server.
      modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "resetScale2d"]], plotlyServerURL: "",
    });
  }
  // Two and five between the powers of ten only where there are few of these.
  function logAxis(values) {
    const [low, high] = extent(values.filter((v) => v > 0));
    const tickformat = high >= 1e5 && low >= 1 ? "~s" : "~g";
    return { type: "log", tickformat, dtick: high / low > 100 ? 1 : "D2" };
  }
  const ofK = () => axis("number of coordinates k", {
    type: "log", tickvals: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
  });

  // --- what the data is ---------------------------------------------------------------------
  function drawScan() {
    const { ks, errors, standard_errors: spread, best, k } = data.scan;
    const marker = (at) => ({
      type: "line", yref: "paper", y0: 0, y1: 1, x0: at, x1: at,
      line: { color: css("--soft"), dash: "dot", width: 1.5 },
    });
    return draw("plot-scan", [{
      x: ks, y: errors, error_y: { array: spread, thickness: 1, width: 2 },
      mode: "lines+markers", marker: { size: 5 }, line: { color: shade(data.colours.positive) },
      hovertemplate: "k = %{x}<br>1 − R² = %{y:.4g}<extra></extra>",
    }], {
      xaxis: ofK(), yaxis: axis("1 − R² of d² on held-out pairs", { rangemode: "tozero" }),
      shapes: [marker(k)], showlegend: false,
      annotations: [{
        x: Math.log10(k), y: 1, yref: "paper", text: `suggested: ${k}`, showarrow: false,
        xanchor: k > Math.max(...ks) / 4 ? "right" : "left", xshift: k > Math.max(...ks) / 4 ? -5 : 5,
        yanchor: "top", font: { color: css("--text") },
      }, ...(best > 1.4 * k ? [{
        x: Math.log10(best), y: errors[ks.indexOf(best)], text: `least: ${best}`, ay: -32, ax: 0,
        arrowcolor: css("--soft"), font: { color: css("--soft") },
      }] : [])],
    });
  }

  // --- spectrum -----------------------------------------------------------------------------
  function drawSpectrum() {
    const { values, rank, kept, words } = data.spectrum;
    const traces = [];
    for (const [sign, name, symbol] of [
      [1, "positive", "circle"], [-1, "negative", "triangle-down"],
    ]) {
      for (const chosen of [0, 1]) {
        const ids = [...values.keys()].filter(
          (i) => Math.sign(values[i]) === sign && kept[i] === chosen
        );
        if (!ids.length) continue;
        const colour = shade(sign > 0 ? data.colours.positive : data.colours.negative);
        traces.push({
          x: ids.map((i) => rank[i]), y: ids.map((i) => Math.abs(values[i])),
          customdata: ids.map((i) => number(values[i])), mode: "markers", type: "scatter",
          name: `${name}, ${words[chosen ? 0 : 1]} (${ids.length.toLocaleString("en")})`,
          marker: {
            symbol: chosen ? symbol : `${symbol}-open`, size: chosen ? 11 : 6, color: colour,
            line: { width: 1, color: chosen ? css("--text") : colour },
          },
          hovertemplate: `${name} eigenvalue %{x}: %{customdata}<extra></extra>`,
        });
      }
    }
    return draw("plot-spectrum", traces, {
      xaxis: axis("rank among the eigenvalues of the same sign", {
        type: values.length > 60 ? "log" : "linear", tickformat: "~g",
        dtick: values.length > 60 ? "D2" : values.length <= 20 ? 1 : undefined,
      }),
      yaxis: axis("size of the eigenvalue, |λ|", logAxis(values.map(Math.abs))),
    });
  }

  // --- against k ----------------------------------------------------------------------------
  // Plotly's names of matplotlib's markers.
  const SYMBOLS = {
    o: "circle", s: "square", "^": "triangle-up", D: "diamond", v: "triangle-down",
    "<": "triangle-left", ">": "triangle-right", P: "cross", X: "x", "*": "star",
  };
  const styleOf = (method) => {
    const [colour, marker] = data.methodStyles[method] || ["#555555", "o"];
    return [colour, SYMBOLS[marker]];
  };
  function drawCurve(id, what, title, extra = () => ({})) {
    const { here, ks } = data.curves;
    const inUnit = what === "r2" ? (v) => v : (v) => (v === null ? null : 100 * v);
    const unit = what === "r2" ? "" : " %";
    const traces = Object.entries(data.curves[what]).map(([method, values]) => ({
      x: ks,
      // A fit that is perfect up to rounding has no place on a log scale.
      y: values.map((v) => (v !== null && what === "normalized_stress" && v < 1e-28 ? null : inUnit(v))),
      mode: "lines+markers", name: method,
      line: { color: shade(styleOf(method)[0]), width: 1.8 },
      marker: { symbol: styleOf(method)[1], size: 6 },
      hovertemplate: `${method}, k = %{x}: %{y:.4g}${unit}<extra></extra>`,
    }));
    traces.push({
      x: [here.k], y: [inUnit(here[what])], mode: "markers", name: "this page",
      marker: { symbol: "star", size: 15, color: shade(styleOf(here.method)[0]),
        line: { color: css("--text"), width: 1.2 } },
      hovertemplate: `this page, ${here.method}, k = %{x}: %{y:.4g}${unit}<extra></extra>`,
    });
    return draw(id, traces, {
      xaxis: ofK(), showlegend: false,
      yaxis: axis(title, extra(traces.flatMap((t) => t.y.filter((v) => v !== null)))),
    });
  }
  function drawCurves() {
    const key = by("methods-key");
    key.replaceChildren(...Object.keys(data.curves.r2).map((method) => {
      const item = document.createElement("li");
      const swatch = document.createElement("i");
      swatch.style.borderTopColor = shade(styleOf(method)[0]);
      item.append(swatch, method);
      return item;
    }), (() => {
      const item = document.createElement("li");
      item.textContent = "★ the embedding of this page";
      return item;
    })());
    return Promise.all([
      drawCurve("plot-stress", "normalized_stress", "STRESS, % of ‖D‖²", logAxis),
      drawCurve("plot-r2", "r2", "R² of d²", r2Range),
      drawCurve("plot-neighbours", "neighbors_kept", "recall@10, %", () => ({ range: [0, 103] })),
    ]);
  }
  // Below −0.2 nothing is left to compare: a method that fails must not flatten the others.
  const r2Range = (values) => ({ range: [Math.max(-0.2, Math.min(0, ...values)) - 0.02, 1.03] });

  // --- the embedding ------------------------------------------------------------------------
  const coordinates = data.axes.values.map(unpack);
  const arrivals = data.axes.arrivals && data.axes.arrivals.map(unpack);
  const columns = data.columns.map((column) => ({
    ...column,
    values: unpack(column.numbers || column.groups),
  }));
  const near = unpackFields(data.nearest);
  const state = { x: 0, y: 1, colour: -1, chosen: null };

  function extent(values) {
    let low = Infinity;
    let high = -Infinity;
    for (const v of values) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
    return Number.isFinite(low) && high > low ? [low, high] : [low - 1, low + 1];
  }

  function explanation(x, y) {
    const signs = data.axes.signs;
    if (y === null) return "There is only one coordinate: the objects lie on a line.";
    if (signs[x] === 0 || signs[y] === 0) {
      return "A height is how far out an object hangs: the heights of two objects are added to their " +
        "squared dissimilarity, wherever they are on the other axis.";
    }
    const a = `axis ${x + 1}`;
    const b = `axis ${y + 1}`;
    if (signs[x] > 0 && signs[y] > 0) {
      const except = signs.some((s) => s < 0) ? ", unless negative axes subtract from it" : "";
      return `Both axes are positive, so the plot reads like a map: objects that are far apart here ` +
        `are far apart in D̂${except}.`;
    }
    if (signs[x] < 0 && signs[y] < 0) {
      return `Both axes are negative: this is the opposite of a map. The farther apart two ` +
        `objects are here, the more their dissimilarity shrinks.`;
    }
    const [plus, minus] = signs[x] > 0 ? [a, b] : [b, a];
    return `This is not a map: ${plus} is positive and ${minus} is negative. A difference along ` +
      `${plus} adds to the dissimilarity, a difference along ${minus} subtracts: ` +
      `D̂ = (Δ ${plus})² − (Δ ${minus})² + the other axes. Choose an object: on the dashed lines ` +
      `through it the two cancel, and beyond them along ${minus} their sum is negative.`;
  }

  function points(ids, more) {
    const xs = coordinates[state.x];
    const ys = state.y === null ? null : coordinates[state.y];
    const column = columns[state.colour];
    const value = (i) => {
      if (!column) return "";
      const v = column.values[i];
      const shown = column.order ? (v < 0 ? "–" : column.order[v]) : number(v);
      return `<br>${plain(column.title)}: ${plain(shown)}`;
    };
    const heights = coordinates[data.axes.signs.indexOf(0)];
    const hanging = (i) => (heights ? `<br>hangs out by ${number(heights[i])} (of D)` : "");
    return {
      type: scatter(data.n), mode: "markers", customdata: ids,
      x: ids.map((i) => xs[i]), y: ids.map((i) => (ys ? ys[i] : 0)),
      text: ids.map((i) => `<b>${plain(short(nameOf(i)))}</b>${value(i)}${hanging(i)}`),
      hovertemplate: "%{text}<br>(%{x:.4g}, %{y:.4g})<extra></extra>", ...more,
    };
  }

  function objectTraces() {
    const size = data.n > 5000 ? 3 : data.n > 500 ? 6 : 9;
    const opacity = data.n > 5000 ? 0.5 : 0.8;
    const grey = { size, opacity: 0.5, color: isDark() ? "#6b737d" : "#b0b4ba" };
    const column = columns[state.colour];
    if (!column) {
      const marker = { size, opacity, color: shade(data.colours.positive) };
      return [points(allObjects, { name: "objects", marker, showlegend: false })];
    }
    if (column.order) {
      const traces = column.order.map((name, g) => points(
        allObjects.filter((i) => column.values[i] === g),
        {
          name: plain(short(name)),
          marker: {
            size: size + 1, opacity, color: shade(data.groupColours[g % data.groupColours.length]),
            symbol: SYMBOLS[data.groupMarkers[
              (g + Math.floor(g / data.groupColours.length)) % data.groupMarkers.length
            ]],
          },
        }
      ));
      const unknown = allObjects.filter((i) => column.values[i] < 0);
      if (unknown.length) traces.push(points(unknown, { name: "no value", marker: grey }));
      return traces;
    }
    const known = allObjects.filter((i) => Number.isFinite(column.values[i]));
    const unknown = allObjects.filter((i) => !Number.isFinite(column.values[i]));
    const traces = unknown.length ? [points(unknown, { name: "no value", marker: grey })] : [];
    traces.push(points(known, {
      name: "objects", showlegend: false,
      marker: {
        size: size + 1, opacity: Math.min(1, opacity + 0.15), colorscale: "Viridis",
        color: known.map((i) => column.values[i]), showscale: true,
        colorbar: {
          title: { text: plain(short(column.title)), side: "right" }, thickness: 13,
          outlinewidth: 0,
        },
      },
    }));
    return traces;
  }

  // Arrows from departures to arrivals, or the arrivals of other objects.
  function arrivalTraces() {
    if (!arrivals) return [];
    const xs = arrivals[state.x];
    const ys = state.y === null ? xs.map(() => 0) : arrivals[state.y];
    const ids = [...xs.keys()];
    if (data.axes.twoSets) {
      return [{
        type: "scatter", mode: "markers", name: "columns of d", x: xs, y: ys, showlegend: false,
        marker: { symbol: "diamond", size: 9, color: shade(data.colours.negative) },
        text: ids.map((j) => `<b>${plain(short(nameOf(data.n + j)))}</b>`),
        hovertemplate: "%{text}<br>(%{x:.4g}, %{y:.4g})<extra></extra>",
      }];
    }
    const from = (values) => (i) => (values ? values[i] : 0);
    const [fx, fy] = [from(coordinates[state.x]), from(state.y === null ? null : coordinates[state.y])];
    return [{
      type: "scatter", mode: "lines+markers", name: "to the arrival", hoverinfo: "skip", showlegend: false,
      x: ids.flatMap((i) => [fx(i), xs[i], null]), y: ids.flatMap((i) => [fy(i), ys[i], null]),
      line: { color: css("--soft"), width: 1.1 },
      marker: {
        symbol: "arrow", angleref: "previous", color: css("--soft"), size: ids.flatMap(() => [0, 8, 0]),
      },
    }];
  }

  // Texts beside their marks: those of arrows and centroids, then the names for which there is space.
  // They are placed anew when the axes move.
  function textNotes() {
    const plot = by("plot-objects");
    const { x, y } = state;
    if (y === null || !plot._fullLayout) return [];
    const { xaxis, yaxis } = plot._fullLayout;
    const [width, height] = [xaxis._length, yaxis._length];
    const sets = [[coordinates, 0]];
    if (data.axes.twoSets) sets.push([arrivals, data.n]);
    const objects = sets.flatMap(([values, start]) => [...values[x].keys()].map(
      (i) => ({ at: [values[x][i], values[y][i]], text: short(nameOf(start + i)) })
    ));
    const arrowTexts = variableArrows().map(({ tip, text }) => ({ at: tip, text, needed: true }));
    const groupTexts = groupCentroids().map(({ at, name }) => ({ at, text: name, needed: true }));
    const wanted = [...groupTexts, ...arrowTexts, ...(checked("names") ? objects : [])];
    const pixel = ([u, v]) => [xaxis.d2p(u), yaxis.d2p(v)];
    const along = variableArrows().flatMap(
      ({ tip }) => [...Array(41).keys()].map((i) => tip.map((v) => v * i / 40))
    );
    const marks = [...objects, ...groupTexts].map(({ at }) => pixel(at));
    const taken = [...marks, ...along.map(pixel)].map(([px, py]) => [px - 4, py - 4, px + 4, py + 4]);
    const canvas = document.createElement("canvas").getContext("2d");
    const notes = [];
    for (const { at, text, needed } of wanted) {
      const size = needed ? 13 : 11;
      canvas.font = `${needed ? "bold " : ""}${size}px system-ui, DejaVu Sans, sans-serif`;
      const [half, high] = [canvas.measureText(text).width / 2 + 2, size / 2 + 2];
      const [px, py] = pixel(at);
      const boxAt = ([dx, dy]) => [px + dx - half, py + dy - high, px + dx + half, py + dy + high];
      const shifts = [6, 16, 28].flatMap((gap) => [
        [1, 0], [1, 1], [1, -1], [0, 1], [0, -1], [-1, 0], [-1, 1], [-1, -1],
      ].map(([h, v]) => [h * (half + gap), v * (high + gap - 1)]));
      const isFree = (shift) => {
        const box = boxAt(shift);
        return box[0] >= 0 && box[1] >= 0 && box[2] <= width && box[3] <= height && taken.every(
          (other) => box[0] >= other[2] || box[2] <= other[0] || box[1] >= other[3] || box[3] <= other[1]
        );
      };
      const isNearest = (shift) => {
        const [left, low, right, top] = boxAt(shift);
        const gap = ([u, v]) => Math.hypot(
          Math.max(left - u, 0, u - right), Math.max(low - v, 0, v - top)
        );
        return marks.every((mark) => gap(mark) > gap([px, py]) - 0.5);
      };
      // Names of objects stay beside their point, and nearer to it than to another: there are no
      // lines that would lead to it.
      const shift = needed
        ? shifts.find(isFree) || shifts[0]
        : shifts.slice(0, 8).find((near) => isFree(near) && isNearest(near));
      if (!shift) continue;
      taken.push(boxAt(shift));
      notes.push({
        x: at[0], y: at[1], xref: "x", yref: "y", showarrow: false, name: "beside a mark",
        text: needed ? `<b>${plain(text)}</b>` : plain(text),
        xshift: shift[0], yshift: -shift[1], xanchor: "center", yanchor: "middle",
        font: { size, color: css("--text") }, captureevents: false,
      });
    }
    return notes;
  }

  // To write texts is to lay the plot out anew, which asks for the texts again.
  let isWriting = false;
  function writeTexts() {
    const plot = by("plot-objects");
    if (isWriting) return Promise.resolve();
    isWriting = true;
    const others = plot.layout.annotations.filter((note) => note.name !== "beside a mark");
    return Plotly.relayout(plot, { annotations: [...others, ...textNotes()] })
      .then(() => { isWriting = false; });
  }

  function groupCentroids() {
    const column = columns[state.colour];
    if (!checked("centroids") || state.y === null || !column || !column.order) return [];
    return column.order.map((name, g) => {
      const ids = allObjects.filter((i) => column.values[i] === g);
      return { name: short(name), at: moments(coordinates[state.x], coordinates[state.y], ids)[0] };
    });
  }

  function centroidTraces() {
    const middles = groupCentroids();
    return [{
      type: "scatter", mode: "markers", name: "centroids", showlegend: false, hoverinfo: "skip",
      x: middles.map(({ at }) => at[0]), y: middles.map(({ at }) => at[1]),
      marker: { symbol: "cross-thin", size: 13, line: { width: 2.4, color: css("--text") } },
    }].filter((trace) => trace.x.length);
  }

  function chosenTraces() {
    const i = state.chosen;
    if (i === null) return [];
    const ring = (colour, symbol, size) => ({
      symbol, size, color: colour, line: { width: 2.4, color: colour },
    });
    const listed = near ? [
      points(nearestIds(near.byGiven, i), {
        name: "nearest by d", marker: ring(shade("#009E73"), "square-open", 15),
      }),
      points(nearestIds(near.byFitted, i), {
        name: "nearest by d̂", marker: ring(shade("#D55E00"), "circle-open", 12),
      }),
    ] : [];
    return [...listed, points([i], {
      name: plain(short(nameOf(i))), marker: ring(css("--text"), "x-thin-open", 17),
    })].map((trace) => ({ ...trace, hoverinfo: "skip", hovertemplate: undefined }));
  }

  // --- ellipses and arrows on the two axes drawn -----------------------------------------------
  const checked = (id) => Boolean(by(id) && by(id).checked);

  // Outline of the ellipse that holds 95 % of a normal distribution; null if it is a line.
  function ellipse([mx, my], [vxx, vxy, vyy]) {
    // The eigenvalues of the covariance are half ± gap.
    const half = (vxx + vyy) / 2;
    const gap = Math.hypot((vxx - vyy) / 2, vxy);
    if (!(half - gap > 1e-12 * half)) return null;
    const radius = Math.sqrt(-2 * Math.log(0.05));
    const [major, minor] = [radius * Math.sqrt(half + gap), radius * Math.sqrt(half - gap)];
    const turn = Math.atan2(2 * vxy, vxx - vyy) / 2;
    return [...Array(65).keys()].map((i) => {
      const [c, s] = [major * Math.cos(i * Math.PI / 32), minor * Math.sin(i * Math.PI / 32)];
      return [mx + c * Math.cos(turn) - s * Math.sin(turn), my + c * Math.sin(turn) + s * Math.cos(turn)];
    });
  }

  // The means of two columns, and their variances with the covariance between them.
  function moments(xs, ys, ids) {
    const mean = (of) => ids.reduce((sum, i) => sum + of(i), 0) / ids.length;
    const [mx, my] = [mean((i) => xs[i]), mean((i) => ys[i])];
    const unbiased = ids.length / Math.max(1, ids.length - 1);
    const covariance = (a, ma, b, mb) => unbiased * mean((i) => (a[i] - ma) * (b[i] - mb));
    return [
      [mx, my],
      [covariance(xs, mx, xs, mx), covariance(xs, mx, ys, my), covariance(ys, my, ys, my)],
    ];
  }

  function outlines(shapes, name, colour) {
    const drawn = shapes.filter(Boolean);
    const xy = (at) => drawn.flatMap((shape) => [...shape.map((p) => p[at]), null]);
    return {
      type: "scatter", mode: "lines", x: xy(0), y: xy(1), name, showlegend: false,
      hoverinfo: "skip", line: { color: colour, width: 1.3 },
    };
  }

  function ellipseTraces() {
    const { x, y } = state;
    if (y === null) return [];
    const traces = [];
    const column = columns[state.colour];
    if (checked("ellipses") && column && column.order) {
      column.order.forEach((name, g) => {
        const ids = allObjects.filter((i) => column.values[i] === g);
        if (ids.length < 3) return;
        const shape = ellipse(...moments(coordinates[x], coordinates[y], ids));
        const colour = shade(data.groupColours[g % data.groupColours.length]);
        traces.push(outlines([shape], `ellipse of ${plain(name)}`, colour));
      });
    }
    // The box is on the page only if there are replicates.
    if (checked("stability") && Math.max(x, y) < data.stability.axes) {
      const { axes, means, covariances } = unpackFields(data.stability);
      const covariance = (i, a, b) => covariances[(i * axes + a) * axes + b];
      const shapes = allObjects.map((i) => ellipse(
        [means[i * axes + x], means[i * axes + y]],
        [covariance(i, x, x), covariance(i, x, y), covariance(i, y, y)]
      ));
      traces.push(outlines(shapes, "replicates", css("--soft")));
    }
    return traces;
  }

  // Variables as arrows of length √r², fitted to these two axes as vegan's envfit does.
  function variableArrows() {
    const { x, y } = state;
    if (y === null || !checked("arrows")) return [];
    const [xs, ys] = [coordinates[x], coordinates[y]];
    const found = columns.filter((c) => c.variable && c.numbers).map((column) => {
      const ids = allObjects.filter((i) => Number.isFinite(column.values[i]));
      const [vxx, vxy, vyy] = moments(xs, ys, ids)[1];
      const [, vxv, vvv] = moments(xs, column.values, ids)[1];
      const vyv = moments(ys, column.values, ids)[1][1];
      const det = vxx * vyy - vxy * vxy;
      const slope = [(vyy * vxv - vxy * vyv) / det, (vxx * vyv - vxy * vxv) / det];
      const r2 = (slope[0] * vxv + slope[1] * vyv) / vvv;
      const length = Math.sqrt(r2) / Math.hypot(...slope);
      return { title: column.title, r2, tip: slope.map((v) => v * length) };
    }).filter((arrow) => arrow.tip.every(Number.isFinite));
    const reach = [xs, ys].map((v) => extent(v).reduce((most, end) => Math.max(most, Math.abs(end)), 0));
    const room = [0, 1].map((a) => reach[a] / Math.max(1e-12, ...found.map((f) => Math.abs(f.tip[a]))));
    const stretch = 0.75 * Math.min(...room);
    return found.map(({ title, r2, tip }) => ({
      tip: tip.map((v) => v * stretch), text: `${short(title)} (r² ${number(r2, 2)})`,
    }));
  }

  function arrowNotes() {
    return variableArrows().map(({ tip }) => ({
      x: tip[0], y: tip[1], xref: "x", yref: "y", ax: 0, ay: 0, axref: "x", ayref: "y", text: "",
      showarrow: true, arrowhead: 2, arrowwidth: 1.6, arrowcolor: css("--text"),
    }));
  }

  // Through the chosen object, on one axis of each sign: where their differences cancel.
  function mixedLines(ranges) {
    const { x, y, chosen } = state;
    if (chosen === null || y === null || data.axes.signs[x] === data.axes.signs[y]) return [];
    const [cx, cy] = [coordinates[x][chosen], coordinates[y][chosen]];
    const reach = ranges.flat().reduce((most, v) => Math.max(most, Math.abs(v)), 0) * 2;
    return [1, -1].map((slope) => ({
      type: "line", layer: "below", x0: cx - reach, y0: cy - slope * reach, x1: cx + reach,
      y1: cy + slope * reach, line: { color: css("--soft"), dash: "dash", width: 1.2 },
    }));
  }

  function drawObjects() {
    const { x, y } = state;
    const outlined = ellipseTraces();
    const padded = (values, side) => {
      const around = outlined.flatMap((trace) => trace[side]).filter((v) => v !== null);
      const [low, high] = extent([...values, ...around]);
      const gap = 0.06 * (high - low);
      return [low - gap, high + gap];
    };
    const all = (a) => (arrivals ? [...coordinates[a], ...arrivals[a]] : coordinates[a]);
    const ranges = [padded(all(x), "x"), y === null ? [-1, 1] : padded(all(y), "y")];
    const [width, height] = ranges.map(([low, high]) => high - low);
    // Beyond 5 : 1 the short axis, often a negative one, would be a line.
    const isSameScale = y !== null && height / width > 0.2 && height / width < 5;
    const colour = (a) =>
      (data.axes.signs[a] < 0 ? shade(data.colours.negative) : css("--text"));
    const titled = (a, more) => {
      const made = axis(data.axes.labels[a], more);
      made.title.font = { color: colour(a) };
      return made;
    };
    by("explanation").textContent = explanation(x, y) +
      (isSameScale || y === null ? "" : " The two axes have different scales.");
    const traces = [
      ...objectTraces(), ...arrivalTraces(), ...outlined, ...centroidTraces(), ...chosenTraces(),
    ];
    return draw("plot-objects", traces, {
      annotations: arrowNotes(),
      xaxis: titled(x, { range: ranges[0] }),
      yaxis: y === null
        ? axis("", { range: ranges[1], showticklabels: false })
        : titled(y, {
          range: ranges[1], ...(isSameScale ? { scaleanchor: "x", scaleratio: 1 } : {}),
        }),
      shapes: mixedLines(ranges), uirevision: `${x},${y},${outlined.length}`, hovermode: "closest", dragmode: "pan",
      legend: { y: -0.12, font: { size: 12 } }, showlegend: true,
    }).then(writeTexts);
  }

  function nearestIds(table, i) {
    const m = table.length / data.n;
    return [...table.subarray(i * m, (i + 1) * m)].filter((j) => j >= 0);
  }

  function cell(kind, text) {
    const made = document.createElement(kind);
    if (kind === "th") made.scope = "col";
    made.textContent = text;
    return made;
  }

  function nearTable(title, ids, others) {
    const heading = cell("h3", title);
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    head.append(cell("th", "object"));
    const body = table.createTBody();
    ids.forEach((j) => {
      const name = body.insertRow().insertCell();
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = nameOf(j) + (others.includes(j) ? " ●" : "");
      button.addEventListener("click", () => choose(j));
      name.append(button);
    });
    return [heading, table];
  }

  function choose(i) {
    state.chosen = i;
    by("find").value = nameOf(i);
    const panel = by("panel");
    const parts = [cell("h3", nameOf(i))];
    for (const column of columns) {
      const v = column.values[i];
      const shown = column.order ? (v < 0 ? "–" : column.order[v]) : number(v);
      const line = cell("p", `${column.title}: ${shown}`);
      line.className = "soft";
      if (parts.length < 4) parts.push(line);
    }
    if (near) {
      const [given, fitted] = [nearestIds(near.byGiven, i), nearestIds(near.byFitted, i)];
      const both = given.filter((j) => fitted.includes(j)).length;
      parts.push(
        cell("p", `${both} of the ${given.length} nearest by d are also among the nearest by d̂ (●).`),
        ...nearTable("Nearest by d̂", fitted, given),
        ...nearTable("Nearest by d", given, fitted)
      );
    } else {
      parts.push(cell("p", "Its nearest objects by d are not listed on this page."));
    }
    panel.replaceChildren(...parts);
    return drawObjects();
  }

  function matches(text, most) {
    const wanted = text.trim().toLowerCase();
    const exact = [];
    const found = [];
    if (!wanted) return found;
    for (let i = 0; i < data.n && found.length + exact.length < most; i += 1) {
      const name = nameOf(i).toLowerCase();
      if (name === wanted || (!data.names && String(i) === wanted)) exact.push(i);
      else if (name.includes(wanted)) found.push(i);
    }
    return [...exact, ...found];
  }

  function setUpObjects() {
    const fill = (select, texts, chosen) => {
      select.replaceChildren(...texts.map((text, i) => new Option(text, i, false, i === chosen)));
    };
    state.y = data.axes.shown > 1 ? 1 : null;
    const labels = data.axes.labels;
    fill(by("axis-x"), labels, state.x);
    fill(by("axis-y"), labels, state.y === null ? 0 : state.y);
    by("axis-y").disabled = state.y === null;
    const start = Number(by("colour").dataset.start);
    state.colour = start;
    by("colour").replaceChildren(
      new Option("nothing", -1), ...columns.map((c, i) => new Option(c.title, i, false, i === start))
    );
    by("axis-x").addEventListener("change", (event) => setAxis("x", "y", event.target));
    by("axis-y").addEventListener("change", (event) => setAxis("y", "x", event.target));
    by("colour").addEventListener("change", (event) => {
      state.colour = Number(event.target.value);
      drawObjects();
    });
    ["names", "ellipses", "centroids", "arrows", "stability"].forEach((id) => {
      if (by(id)) by(id).addEventListener("change", drawObjects);
    });
    const find = by("find");
    find.addEventListener("input", () => {
      by("found").replaceChildren(
        ...matches(find.value, 20).map((i) => new Option("", nameOf(i)))
      );
    });
    find.form.addEventListener("submit", (event) => {
      event.preventDefault();
      // All objects are asked: the one of exactly this name may come late.
      const exact = allObjects.find((i) => nameOf(i) === find.value.trim());
      const first = exact === undefined ? matches(find.value, 1)[0] : exact;
      if (first === undefined) {
        by("panel").replaceChildren(cell("p", `No object is called “${find.value}”.`));
      } else {
        choose(first);
      }
    });
  }

  function setAxis(mine, other, select) {
    const wanted = Number(select.value);
    if (state[other] === wanted) {
      state[other] = state[mine];
      by(`axis-${other}`).value = String(state[other]);
    }
    state[mine] = wanted;
    drawObjects();
  }

  function listen() {
    by("plot-objects").on("plotly_click", (event) => {
      if (event.points[0].customdata !== undefined) choose(event.points[0].customdata);
    });
    by("plot-objects").on("plotly_relayout", writeTexts);
  }

  // --- coordinates as a table, in pages -----------------------------------------------------
  const ROWS = 50;
  let page = 0;
  function showRows() {
    const last = Math.max(0, Math.ceil(data.n / ROWS) - 1);
    page = Math.min(Math.max(0, page), last);
    const table = by("coordinates");
    const head = document.createElement("thead");
    const body = document.createElement("tbody");
    head.insertRow().append(cell("th", "object"), ...data.axes.names.map((n) => cell("th", n)));
    const end = Math.min(data.n, (page + 1) * ROWS);
    for (let i = page * ROWS; i < end; i += 1) {
      body.insertRow().append(
        cell("td", nameOf(i)), ...coordinates.map((axisValues) => cell("td", number(axisValues[i])))
      );
    }
    table.replaceChildren(table.caption, head, body);
    by("rows").textContent =
      `${(page * ROWS + 1).toLocaleString("en")} to ${end.toLocaleString("en")} of ` +
      `${data.n.toLocaleString("en")}`;
    by("rows-before").disabled = page === 0;
    by("rows-after").disabled = page === last;
  }
  function setUpRows() {
    by("rows-before").addEventListener("click", () => { page -= 1; showRows(); });
    by("rows-after").addEventListener("click", () => { page += 1; showRows(); });
    by("coordinates").closest("details").addEventListener("toggle", showRows, { once: true });
  }

  // --- pairs --------------------------------------------------------------------------------
  const pairs = unpackFields(data.pairs);
  function pairTraces(height, unit) {
    const step = hasWebGL ? 1 : Math.ceil(pairs.given.length / MOST_SVG);
    const drawn = [...pairs.given.keys()].filter((i) => i % step === 0);
    return [0, 1].map((negative) => {
      const ids = drawn.filter(
        (i) => pairs.fitted[i] < 0 === Boolean(negative) && Number.isFinite(height(i))
      );
      const count = ids.length.toLocaleString("en");
      const opacity = Math.min(0.7, Math.max(0.15, (negative ? 3000 : 2000) / ids.length));
      return {
        type: scatter(pairs.given.length), mode: "markers",
        name: negative ? `D̂ < 0 (${count})` : `D̂ ≥ 0 (${count})`,
        x: ids.map((i) => pairs.given[i]), y: ids.map(height),
        text: ids.map((i) => `${plain(short(nameOf(pairs.left[i])))} – ` +
          plain(short(nameOf(pairs.right[i])))),
        hovertemplate: `%{text}<br>given %{x:.4g}, ${unit}<extra></extra>`,
        marker: {
          size: negative ? 6 : 4, opacity, symbol: negative ? "triangle-down" : "circle",
          color: shade(negative ? data.colours.negative : data.colours.positive),
        },
      };
    }).filter((trace) => trace.x.length);
  }
  const scale = data.squared ? " (squared)" : "";

  function drawShepard() {
    const [low, high] = extent(pairs.given);
    const ends = [Math.min(0, low), high];
    const line = data.steps
      ? { x: data.steps.given, y: data.steps.fitted, name: "disparities", shape: "hv" }
      : { x: ends, y: ends, name: "agreement", shape: "linear" };
    return draw("plot-shepard", [
      ...pairTraces((i) => pairs.fitted[i], "embedding %{y:.4g}"),
      {
        x: line.x, y: line.y, mode: "lines", name: line.name, hoverinfo: "skip",
        type: scatter(pairs.given.length),
        line: { color: css("--text"), width: 1.5, shape: line.shape },
      },
    ], {
      xaxis: axis(`dissimilarity given${scale}`), hovermode: "closest",
      yaxis: axis(`dissimilarity of the embedding${scale}`),
    });
  }

  function drawErrors() {
    const error = (i) =>
      (pairs.given[i] > 0 ? 100 * (pairs.fitted[i] / pairs.given[i] - 1) : NaN);
    const lines = [];
    if (pairs.given.length >= 500) {
      const tenths = (name) => data.tenths.map((part) => part[name]);
      const [low, middle, high] = ["least", "error", "most"].map(
        (name) => tenths(name).map((v) => 100 * v)
      );
      const common = { x: tenths("middle"), mode: "lines", hoverinfo: "skip", type: "scatter" };
      lines.push(
        { ...common, y: low, line: { width: 0 }, showlegend: false },
        {
          ...common, y: high, line: { width: 0 }, fill: "tonexty", name: "90 % of the pairs",
          fillcolor: isDark() ? "rgba(200,205,212,0.22)" : "rgba(90,98,108,0.22)",
        },
        {
          ...common, y: middle, name: "median", hoverinfo: undefined,
          // As the points are: WebGL's lie above whatever is SVG, which suits the band alone.
          type: scatter(pairs.given.length),
          line: { color: css("--text"), dash: "dash", width: 1.8 },
          hovertemplate: "median at %{x:.4g}: %{y:.3g} %<extra></extra>",
        }
      );
    }
    const traces = [...pairTraces(error, "off by %{y:.3g} %"), ...lines];
    const all = traces.flatMap((t) => Array.from(t.y)).filter(Number.isFinite).sort((a, b) => a - b);
    const quantile = (share) => all[Math.floor(share * (all.length - 1))];
    // A near pair may be off by a factor of a thousand: it must not flatten all others.
    const range = [Math.min(-15, 1.2 * quantile(0.01)), Math.max(15, 1.2 * quantile(0.99))];
    const [least, most] = [quantile(0), quantile(1)];
    const isCut = most > 1.3 * range[1] || least < 1.3 * range[0];
    by("error-note").textContent = isCut
      ? `The plot ends at ${number(range[0], 2)} % and ${number(range[1], 2)} %; the extreme ` +
        `errors are ${number(least, 3)} % and ${number(most, 3)} %. Double-click to see all.`
      : "";
    const given = Array.from(pairs.given).filter((v) => v > 0).sort((a, b) => a - b);
    // Without the nearest hundredth of the pairs.
    const isWide = given[given.length - 1] > 30 * given[Math.floor(given.length / 100)];
    return draw("plot-errors", traces, {
      xaxis: axis(`dissimilarity given${scale}`, isWide ? logAxis(given) : {}), hovermode: "closest",
      yaxis: axis("error of the embedding, %", {
        zerolinecolor: css("--text"), zerolinewidth: 1.5, ...(isCut ? { range } : {}),
      }),
    });
  }

  function drawWorst() {
    const { ids, errors } = data.worst;
    const rows = [...ids.keys()];
    return draw("plot-worst", [{
      type: "bar", orientation: "h", x: rows.map((r) => errors[r]),
      y: rows.map((r) => r), marker: { color: shade("#CC79A7") },
      text: rows.map((r) => plain(short(nameOf(ids[r])))), textposition: "none",
      hovertemplate: "%{text}: off by %{x:.3g} % on average<extra></extra>",
    }], {
      xaxis: axis("mean relative error of its pairs, %", { rangemode: "tozero" }),
      yaxis: axis("", {
        tickvals: rows, ticktext: rows.map((r) => plain(short(nameOf(ids[r])))), showgrid: false,
        zeroline: false, autorange: "reversed",
      }),
    });
  }

  // --- all of it ----------------------------------------------------------------------------
  const drawings = [
    ["plot-objects", drawObjects], ["plot-scan", drawScan], ["plot-spectrum", drawSpectrum],
    ["plot-stress", drawCurves], ["plot-shepard", drawShepard], ["plot-errors", drawErrors],
    ["plot-worst", drawWorst],
  ].filter(([id]) => by(id));

  async function drawAll() {
    for (const [, drawing] of drawings) {
      await drawing();
      // Let the browser show what is there already.
      await new Promise((resolve) => { setTimeout(resolve, 0); });
    }
  }

  function setUpTheme() {
    const button = by("theme");
    const name = () => { button.textContent = isDark() ? "Light mode" : "Dark mode"; };
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      name();
      drawAll();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      name();
      drawAll();
    });
    name();
  }

  async function start() {
    setUpTheme();
    if (by("plot-objects")) {
      setUpObjects();
      setUpRows();
    }
    if (!hasWebGL && data.n > MOST_SVG) by("webgl-note").hidden = false;
    await drawAll();
    if (by("plot-objects")) listen();
    document.documentElement.dataset.ready = "yes";
  }
  start();
})();
