// Moves a cursor over the timeline and shows the figures of its moment. The table of samples is what
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

  let at = nearest(Number(cursor.value));

  const show = () => {
    const row = rows[at];
    cursor.value = row.time;
    cursor.setAttribute("aria-valuetext", row.texts[0]);
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
  };

  const go = (index) => {
    index = Math.min(Math.max(index, 0), rows.length - 1);
    if (index === at) return show();
    at = index;
    show();
    const { texts } = rows[at];
    const here = events.filter((event) => event.time === texts[0]).map((event) => event.text);
    note.textContent = here.length ? ": " + here.join(", ") : "";
    const figures = names.slice(1).map((name, index) => name + " " + texts[index + 1]);
    readout.textContent = "At " + texts[0] + ": " + figures.concat(here).join(", ");
  };

  for (const { svg, frame } of plots) {
    const move = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const part = (x - frame.left) / (frame.right - frame.left);
      go(nearest(frame.first + part * (frame.last - frame.first)));
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
  }

  // Keys go from sample to sample, whatever their distance in time.
  const leap = Math.ceil(rows.length / 10);
  const keys = {
    ArrowLeft: () => at - 1,
    ArrowDown: () => at - 1,
    ArrowRight: () => at + 1,
    ArrowUp: () => at + 1,
    PageDown: () => at - leap,
    PageUp: () => at + leap,
    Home: () => 0,
    End: () => rows.length - 1,
  };
  cursor.addEventListener("keydown", (event) => {
    const key = event.ctrlKey || event.altKey || event.metaKey ? undefined : keys[event.key];
    if (!key) return;
    event.preventDefault();
    go(key());
  });
  cursor.addEventListener("input", () => go(nearest(Number(cursor.value))));
  cursor.hidden = false;
  show();
})();
