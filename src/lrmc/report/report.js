"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

  // Charts: the value nearest to the pointer, or the next one by arrow key.
  for (const chart of all(".chart")) {
    const svg = chart.querySelector("svg"), ring = chart.querySelector(".ring"), reading = chart.querySelector(".reading");
    const points = all(".point", chart).map((p) => ({ x: +p.getAttribute("cx"), y: +p.getAttribute("cy"), text: p.dataset.t }));
    points.sort((a, b) => a.x - b.x);
    if (!svg || !points.length) continue;
    let at = -1;
    const show = (k) => {
      at = Math.max(0, Math.min(points.length - 1, k));
      ring.style.opacity = 1;
      ring.setAttribute("cx", points[at].x);
      ring.setAttribute("cy", points[at].y);
      reading.textContent = points[at].text;
    };
    const nearest = (event) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      // Across counts more than up: one reads a chart by its x.
      const far = (p) => 9 * (p.x - x) ** 2 + (p.y - y) ** 2;
      show(points.reduce((best, p, k) => (far(p) < far(points[best]) ? k : best), 0));
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
    chart.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: points.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    });
  }

  // Maps: which rows and columns are under the pointer.
  for (const map of all(".map")) {
    const [n1, n2] = map.dataset.shape.split(" ").map(Number), [down, across] = map.dataset.step.split(" ").map(Number);
    const image = map.querySelector("img"), reading = map.parentElement.querySelector(".reading");
    const range = (name, share, step, n) => {
      const cells = Math.ceil(n / step), cell = Math.max(0, Math.min(cells - 1, Math.floor(share * cells)));
      const first = cell * step, last = Math.min(n, first + step) - 1;
      return first === last ? `${name} ${first}` : `${name}s ${first} to ${last}`;
    };
    const read = (event) => {
      const box = image.getBoundingClientRect();
      const row = range("row", (event.clientY - box.top) / box.height, down, n1);
      reading.textContent = `${row}, ${range("column", (event.clientX - box.left) / box.width, across, n2)}`;
    };
    image.addEventListener("pointermove", read);
    image.addEventListener("pointerdown", read);
  }

  // Tables: numbers by size, all else as text; what is no number comes last, whatever the direction.
  for (const table of all("table.sortable")) {
    const heads = all("th", table), body = table.tBodies[0];
    const value = (row, j) => {
      const given = row.cells[j].dataset.v;
      return given === undefined ? row.cells[j].textContent : Number(given.replace("inf", "Infinity"));
    };
    const compare = (a, b, sign) => {
      if (typeof a === "number" && typeof b === "number") {
        const bad = Number.isNaN(a) - Number.isNaN(b);
        return bad || (a === b ? 0 : sign * (a < b ? -1 : 1)) || 0;
      }
      return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
    };
    heads.forEach((head, j) => {
      head.querySelector("button").addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = Array.from(body.rows).map((row) => [value(row, j), row]);
        rows.sort((a, b) => compare(a[0], b[0], up ? 1 : -1));
        body.append(...rows.map((pair) => pair[1]));
      });
    });
  }

  // Before and after: the pointer or the arrow keys move the border.
  for (const box of all(".compare")) {
    const input = box.querySelector("input");
    const show = () => box.style.setProperty("--at", `${input.value}%`);
    const follow = (event) => {
      const area = box.getBoundingClientRect();
      input.value = Math.round((100 * (event.clientX - area.left)) / area.width);
      show();
    };
    box.addEventListener("pointerdown", (event) => {
      box.setPointerCapture(event.pointerId);
      follow(event);
      input.focus({ preventScroll: true });
      event.preventDefault();
    });
    box.addEventListener("pointermove", (event) => { if (box.hasPointerCapture(event.pointerId)) follow(event); });
    input.addEventListener("input", show);
    show();
  }

  // Films: one slider for all layers.
  for (const film of all(".film")) {
    const { frames, captions, rate } = JSON.parse(film.querySelector("script").textContent);
    const images = all("img", film), input = film.querySelector("input");
    const output = film.querySelector("output"), button = film.querySelector(".play");
    let timer = 0;
    const show = () => {
      images.forEach((image, layer) => { image.src = frames[input.value][layer]; });
      output.textContent = captions[input.value];
      input.setAttribute("aria-valuetext", captions[input.value]);
    };
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      button.textContent = "▶";
      button.setAttribute("aria-label", "Play");
      button.setAttribute("aria-pressed", "false");
    };
    const play = () => {
      timer = setInterval(() => { input.value = (+input.value + 1) % frames.length; show(); }, 1000 / rate);
      button.textContent = "❚❚";
      button.setAttribute("aria-label", "Pause");
      button.setAttribute("aria-pressed", "true");
    };
    button.addEventListener("click", () => (timer ? stop() : play()));
    input.addEventListener("input", () => { if (timer) stop(); show(); });
    if (frames.length < 2) button.hidden = true;
    show();
  }
})();
