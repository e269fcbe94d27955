// Moves a cursor over the timeline and tells the figures of its moment. The table of samples is what
// it reads; without it, and without scripts, the page lacks nothing but the cursor.
"use strict";
(() => {
  const cursor = document.getElementById("cursor");
  const table = document.getElementById("samples");
  if (!cursor || !table) return;
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.name);
  const rows = [...table.tBodies[0].rows].map((row) => ({
    time: Number(row.cells[0].firstElementChild.value),
    texts: [...row.cells].map((cell) => cell.textContent),
  }));
  const events = [...document.querySelectorAll("#events tbody tr")].map((row) => ({
    time: row.cells[0].textContent,
    text: row.cells[1].textContent + " " + row.cells[2].textContent,
  }));
  const plots = [...document.querySelectorAll("svg.plot")].map((svg) => {
    const frame = {};
    for (const name of ["left", "right", "top", "bottom", "first", "last"]) frame[name] = Number(svg.dataset[name]);
    const line = document.createElementNS(svg.namespaceURI, "line");
    line.setAttribute("class", "cursor");
    line.setAttribute("y1", frame.top);
    line.setAttribute("y2", frame.bottom);
    svg.append(line);
    return { svg, frame, line };
  });
  const readout = document.getElementById("readout");
  const note = document.getElementById("moment-note");
  const values = new Map(
    [...document.querySelectorAll("[data-legend]")].map((place) => [place.dataset.legend, place]),
  );

  const show = (isNew) => {
    const row = rows[cursor.value];
    for (const { frame, line } of plots) {
      const part = (row.time - frame.first) / (frame.last - frame.first);
      const x = frame.left + part * (frame.right - frame.left);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
    names.forEach((name, index) => {
      const place = values.get(name);
      if (place) place.textContent = row.texts[index];
    });
    cursor.setAttribute("aria-valuetext", row.texts[0]);
    if (!isNew) return;
    const here = events.filter((event) => event.time === row.texts[0]).map((event) => event.text);
    note.textContent = here.length ? ": " + here.join(", ") : "";
    const figures = names.slice(1).map((name, index) => name + " " + row.texts[index + 1]);
    readout.textContent = "At " + row.texts[0] + ": " + figures.concat(here).join(", ");
  };

  // The sample that is nearest to a moment: they are in order of time.
  const nearest = (time) => {
    let [low, high] = [0, rows.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (rows[middle].time <= time) low = middle;
      else high = middle;
    }
    return time - rows[low].time <= rows[high].time - time ? low : high;
  };

  for (const { svg, frame } of plots) {
    const move = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const part = (x - frame.left) / (frame.right - frame.left);
      cursor.value = nearest(frame.first + part * (frame.last - frame.first));
      show(true);
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
  }
  cursor.addEventListener("input", () => show(true));
  cursor.hidden = false;
  show(false);
})();
