// Draws the stacks of the sampled lines as an icicle: the outermost call at the top, the widths by bytes. The JSON beside it
// has the stacks, made by src/ctl/html/lines/drawing.rs. Names of the report become text, never markup.
"use strict";
(async () => {
  const source = document.getElementById("stacks-data");
  const place = (name) => document.getElementById("stacks-" + name);
  const svg = document.getElementById("icicle");
  if (!source || !svg || !window.DecompressionStream) return;
  const packed = Uint8Array.from(atob(source.textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(unpacked).json();
  const [view, account, search] = [place("view"), place("account"), place("search")];
  // Only a comparison has it.
  const widths = place("widths");

  const ROW = 24;
  // A frame narrower than this, with room for three letters, has no text.
  const NARROW = 30;
  // A frame narrower than this is not drawn.
  const NARROWEST = 1;
  // Frames above the one that is zoomed to, and rows below it, that are drawn.
  const ABOVE = 8;
  const BELOW = 120;

  const nodeOf = (frame, parent) => ({ frame, parent, children: [], below: new Map(), level: parent ? parent.level + 1 : 0, sum: null, isFound: false });
  const root = nodeOf(-1, null);
  const nodes = [root];
  const stacks = data.stacks.map(([report, account, isListed, frames, views]) => {
    let node = root;
    for (const frame of frames) {
      const known = node.below.get(frame);
      const next = known ?? nodeOf(frame, node);
      if (!known) {
        node.below.set(frame, next);
        node.children.push(next);
        nodes.push(next);
      }
      node = next;
    }
    return { report, account, isListed, node, views };
  });
  data.accounts.forEach(([name, totals], index) => {
    const option = document.createElement("option");
    option.value = index + 1;
    option.textContent = totals.every(Boolean) ? name : name + " (in the total of the highest resident size only)";
    account.append(option);
  });

  const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  const bytesText = (bytes) => {
    if (bytes < 0) return "\u2212" + bytesText(-bytes);
    if (bytes < 1024) return bytes + "\u00a0B";
    let unit = 0;
    let scale = 1024;
    while (Math.round((bytes * 10) / scale) >= 10240 && unit + 1 < UNITS.length) [scale, unit] = [scale * 1024, unit + 1];
    return (Math.round((bytes * 10) / scale) / 10).toFixed(1) + "\u00a0" + UNITS[unit];
  };
  const shareText = (part, whole) => (whole > 0 ? ((part * 100) / whole).toFixed(1) : "0.0") + "\u00a0%";
  const signed = (bytes) => (bytes > 0 ? "+" : "") + bytesText(bytes);
  // The variances of disjoint sums add; the rest of the error counts once.
  const errorOf = (sums) => Math.round(data.missed_bytes + Math.sqrt(sums.reduce((sum, { square }) => sum + square, 0)));

  const fileOf = (node) => (node.frame < 0 ? null : data.files[data.frames[node.frame][1]]) ?? null;
  const nameOf = (node) => (node.frame < 0 ? account.selectedOptions[0].textContent : data.frames[node.frame][0]);
  const placeOf = (node) => {
    const file = fileOf(node);
    const line = file && data.frames[node.frame][2];
    return file ? file[0] + (line ? ":" + line : "") : "";
  };
  // Bytes of stacks that the reports do not list.
  let leftOut = [0, 0];
  // The report with fewer bytes may lack stacks that only the other one lists: each has fewer bytes than the least that it lists.
  const changeError = ({ bytes, before, squares, unlisted }) => {
    const report = before >= bytes ? 0 : 1;
    const lacks = Math.min(data.comparison.least[report][Number(view.value)] * unlisted[report], leftOut[report]);
    return Math.round(Math.sqrt(squares) + data.comparison.missed_bytes) + lacks;
  };
  const hasChanged = (sum) => Math.abs(sum.bytes - sum.before) > changeError(sum);
  // The change is in the text too: not everybody sees it by the colour.
  const labelOf = (node) => {
    const path = placeOf(node);
    const name = path ? nameOf(node) + " " + path.slice(path.lastIndexOf("/") + 1) : nameOf(node);
    return data.comparison && hasChanged(node.sum) ? name + " " + signed(node.sum.bytes - node.sum.before) : name;
  };

  const key = () => (widths ? widths.value : "bytes");
  const width = (node) => (node.sum ? node.sum[key()] : 0);

  // Sums of the view and the account that are chosen.
  const choose = () => {
    const [wanted, scope] = [Number(view.value), Number(account.value)];
    for (const node of nodes) node.sum = null;
    leftOut = [0, 0];
    for (const { report, account, isListed, node, views } of stacks) {
      const amount = views.find((row) => row[0] === wanted);
      if (!amount || !(scope === 0 ? data.accounts[account][1][wanted] : account === scope - 1)) continue;
      const [, bytes, blocks, square, isUnlisted] = amount;
      if (!isListed) leftOut[report] += bytes;
      for (let above = node; above; above = above.parent) {
        const sum = (above.sum ??= { bytes: 0, blocks: 0, square: 0, before: 0, squares: 0, unlisted: [0, 0] });
        sum.squares += square;
        if (isUnlisted) sum.unlisted[1 - report] += 1;
        if (report === 1) sum.before += bytes;
        else [sum.bytes, sum.blocks, sum.square] = [sum.bytes + bytes, sum.blocks + blocks, sum.square + square];
      }
    }
    for (const node of nodes) node.children.sort((one, other) => width(other) - width(one));
  };

  const classOf = (node) => {
    if (node.isFound) return "found";
    if (!data.comparison) return node.level === 0 ? "whole" : (fileOf(node)?.[1] ?? "outside");
    if (!hasChanged(node.sum)) return "same";
    const { bytes, before } = node.sum;
    if (bytes > before) return bytes > 2 * before ? "most-grew" : "grew";
    return bytes < before / 2 ? "most-shrank" : "shrank";
  };

  const figures = (node) => {
    const { bytes, blocks, before, square } = node.sum;
    const error = data.missed_bytes || square ? " \u00b1 " + bytesText(errorOf([node.sum])) : "";
    let text = bytesText(bytes) + error + " (" + bytes.toLocaleString("en") + " bytes) in " + blocks.toLocaleString("en");
    text += (blocks === 1 ? " block, " : " blocks, ") + shareText(node.sum[key()], width(root)) + " of all";
    if (zoomed !== root && isBelow(node, zoomed)) text += ", " + shareText(node.sum[key()], width(zoomed)) + " of the frame zoomed to";
    if (data.comparison) text += "; before " + bytesText(before) + ", change " + signed(bytes - before) + " \u00b1 " + bytesText(changeError(node.sum));
    return text;
  };
  const isBelow = (node, above) => {
    while (node && node.level > above.level) node = node.parent;
    return node === above;
  };

  const describe = (node) => {
    const [first, second] = place("at").children;
    const owner = fileOf(node)?.[2];
    first.textContent = [nameOf(node), placeOf(node), owner && "(" + owner + ")"].filter(Boolean).join("  ");
    second.textContent = figures(node);
  };

  let zoomed = root;
  // The frames that were zoomed to before.
  const history = [];
  // The frame that the Tab key reaches.
  let current = root;
  const drawn = new Map();
  const frameOf = new WeakMap();
  let rows = [];

  const element = (name, attributes) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    return made;
  };

  const add = (node, row, x, wide) => {
    const label = labelOf(node);
    const group = element("g", {
      class: "frame " + classOf(node) + (row < rows.base ? " above" : ""),
      role: "treeitem",
      tabindex: "-1",
      "aria-level": node.level + 1,
      "aria-label": [label, placeOf(node), figures(node)].filter(Boolean).join(", "),
    });
    // The gap between frames has room for the line around the one that has the focus.
    group.append(element("rect", { x, y: row * ROW, width: Math.max(wide - 1, wide / 2), height: ROW - 1 }));
    // The text is whole in the document, as the name is, and cut by its style.
    if (wide >= NARROW) {
      const box = element("foreignObject", { x: x + 4, y: row * ROW, width: wide - 8, height: ROW - 1 });
      box.append(document.createElement("div"));
      box.firstChild.textContent = label;
      group.append(box);
    }
    svg.append(group);
    drawn.set(node, group);
    frameOf.set(group, node);
    (rows[row] ??= []).push(node);
  };

  const draw = () => {
    svg.replaceChildren();
    drawn.clear();
    rows = [];
    const whole = Math.max(place("box").clientWidth, 200);
    const notes = [];
    if (width(zoomed) > 0) {
      const above = [];
      for (let node = zoomed.parent; node; node = node.parent) above.unshift(node);
      const hidden = Math.max(above.length - 1 - ABOVE, 0);
      if (hidden) notes.push(hidden + " calls above the frame are not drawn.");
      above.splice(1, hidden);
      rows.base = above.length;
      above.forEach((node, row) => add(node, row, 0, whole));
      const open = [[zoomed, 0, whole]];
      let [narrow, deep] = [0, 0];
      while (open.length) {
        const [node, x, wide] = open.pop();
        const row = node.level - zoomed.level + rows.base;
        add(node, row, x, wide);
        const below = [];
        let from = x;
        for (const child of node.children) {
          const part = (wide * width(child)) / width(node);
          if (part >= NARROWEST) below.push([child, from, part]);
          else if (width(child) > 0) narrow += 1;
          from += part;
        }
        if (below.length && row - rows.base >= BELOW) deep += below.length;
        else open.push(...below.reverse());
      }
      if (narrow) notes.push(narrow.toLocaleString("en") + " frames are too narrow to be drawn here: zoom in, or search.");
      if (deep) notes.push("The stacks go on below the last row: zoom in.");
    } else {
      notes.push("No bytes in this view and account.");
    }
    const high = Math.max(rows.length * ROW, 1);
    svg.setAttribute("viewBox", "0 0 " + whole + " " + high);
    svg.setAttribute("width", whole);
    svg.setAttribute("height", high);
    place("note").textContent = notes.join(" ");
    place("back").disabled = history.length === 0;
    place("whole").disabled = zoomed === root;
    if (!drawn.has(current)) current = zoomed;
    drawn.get(current)?.setAttribute("tabindex", "0");
    if (current.sum) describe(current);
    else for (const line of place("at").children) line.textContent = "";
  };

  const focus = (node) => {
    drawn.get(current)?.setAttribute("tabindex", "-1");
    current = node;
    const group = drawn.get(node);
    group.setAttribute("tabindex", "0");
    group.focus({ preventScroll: true });
    group.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
  };
  const redraw = () => {
    const hadFocus = svg.contains(document.activeElement);
    draw();
    if (hadFocus && drawn.has(current)) focus(current);
  };
  const zoom = (node) => {
    if (node === zoomed) return;
    history.push(zoomed);
    zoomed = current = node;
    place("box").scrollTop = 0;
    redraw();
  };
  const back = () => {
    if (!history.length) return;
    current = zoomed;
    zoomed = history.pop();
    redraw();
  };
  const reset = () => {
    history.length = 0;
    current = zoomed = root;
  };

  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    const matches = data.frames.map(
      ([name, file, line]) => wanted !== "" && (name + " " + (file === null ? "" : data.files[file][0] + ":" + line)).toLowerCase().includes(wanted),
    );
    // The outermost of those that match: below them the bytes would count twice.
    const outermost = [];
    let count = 0;
    for (const node of nodes) {
      node.isFound = node.frame >= 0 && matches[node.frame];
      node.isInFound = Boolean(node.parent && (node.parent.isFound || node.parent.isInFound));
      if (!node.isFound || width(node) === 0) continue;
      count += 1;
      if (!node.isInFound) outermost.push(node.sum);
    }
    const sum = outermost.reduce((sum, row) => sum + row[key()], 0);
    const error = data.missed_bytes && key() === "bytes" ? " \u00b1 " + bytesText(errorOf(outermost)) : "";
    place("found").textContent =
      wanted === ""
        ? ""
        : count === 0
          ? "No frame matches."
          : (count === 1 ? "1 frame matches: " : count.toLocaleString("en") + " frames match: ") +
            bytesText(sum) + error + ", " + shareText(sum, width(root)) + " of all";
  };

  // The frame of an event.
  const at = (event) => {
    const group = event.target.closest?.("g.frame");
    return group ? frameOf.get(group) : undefined;
  };
  svg.addEventListener("click", (event) => {
    const node = at(event);
    if (node) zoom(node);
  });
  svg.addEventListener("pointerover", (event) => {
    const node = at(event);
    if (node) describe(node);
  });
  svg.addEventListener("pointerleave", () => current.sum && describe(current));
  svg.addEventListener("focusin", (event) => {
    const node = at(event);
    if (!node) return;
    if (node !== current) focus(node);
    describe(node);
  });
  const beside = (step) => {
    const row = rows.find((row) => row?.includes(current)) ?? [];
    return row[row.indexOf(current) + step];
  };
  const keys = {
    ArrowUp: () => current.parent && drawn.has(current.parent) && current.parent,
    ArrowDown: () => current.children.find((child) => drawn.has(child)),
    ArrowLeft: () => beside(-1),
    ArrowRight: () => beside(1),
    Home: () => root,
  };
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") zoom(current);
    else if (event.key === "Escape") back();
    else if (keys[event.key]) {
      const node = keys[event.key]();
      if (node) focus(node);
    } else return;
    event.preventDefault();
  });
  const update = () => {
    choose();
    // A frame without bytes cannot be zoomed to.
    if (width(zoomed) === 0) reset();
    find();
    redraw();
  };
  for (const choice of [view, account, widths]) choice?.addEventListener("change", update);
  search.addEventListener("input", () => {
    find();
    redraw();
  });
  place("back").addEventListener("click", back);
  place("whole").addEventListener("click", () => {
    reset();
    redraw();
  });

  document.getElementById("stacks").hidden = false;
  update();
  let before = place("box").clientWidth;
  new ResizeObserver(() => {
    if (place("box").clientWidth === before) return;
    before = place("box").clientWidth;
    draw();
  }).observe(place("box"));
})();
