// SPDX-License-Identifier: Apache-2.0
// Runs in the page of zero-plan, after the page's own script: moves its sliders to every position
// and compares what can then be read with what the program printed as JSON for the same question
// (the element "expected": one answer for each number of devices and batch). What differs, and how
// many figures were compared, it leaves in the title. With #few it tries one number of devices only.
"use strict";
(() => {
  const wrong = [], expected = JSON.parse(document.getElementById("expected").textContent);
  let figures = 0;
  window.addEventListener("error", event => wrong.push("error: " + event.message));
  const same = (what, shown, wanted) => {
    ++figures;
    if (shown !== wanted) wrong.push(`${what}: shows '${shown}', should be '${wanted}'`);
  };
  const near = (what, shown, wanted, most) => {
    ++figures;
    if (!(Math.abs(shown - wanted) <= most)) wrong.push(`${what}: shows ${shown}, should be ${wanted}`);
  };
  const text = id => document.getElementById(id).textContent;
  const all = selector => [...document.querySelectorAll(selector)];
  /** The number that a text such as "12.3 GB" stands for, and half of its last digit. */
  const read = shown => {
    const [, digits, unit] = /(-?[\d.]+) ?(GB|ms|s|%)?/.exec(shown) || [];
    const factor = {GB: 1e9, ms: 1e-3, "%": 1e-2}[unit] || 1;
    const decimals = (digits.split(".")[1] || "").length;
    return [digits * factor, 0.5001 * factor * 10 ** -decimals];
  };
  const reads = (what, shown, wanted) => near(what, read(shown)[0], wanted, read(shown)[1]);
  const sum = (one, keys) => keys.reduce((total, key) => total + one[key], 0);
  const slide = (id, value) => {
    const slider = document.getElementById(id);
    slider.value = value;
    if (+slider.value !== value) wrong.push(`slider ${id} cannot be set to ${value}`);
    slider.dispatchEvent(new Event("input"));
  };
  const seconds = shown => { const [value] = read(shown); return value; };

  const devices = expected.devices, batches = expected.batches, stages = expected.stages;
  for (const id of ["devices", "stage", "batch"]) {
    const slider = document.getElementById(id);
    same("positions of " + id, +slider.max + 1,
         {devices, stage: stages, batch: batches}[id].length);
  }
  const few = location.hash === "#few";  // positions
  devices.forEach((device, d) => batches.forEach((batch, b) => {
    if (few && (d !== 2 || b !== 2)) return;
    const answer = expected.answers[d * batches.length + b];
    stages.forEach((stage, s) => {
      slide("devices", d), slide("batch", b), slide("stage", s);
      const at = `${device} devices, batch ${batch}, ${stage}: `;
      const best = stages.map(name => answer.candidates.find(c => c.stage === name));
      const one = best[s];
      same(at + "devices", text("devices-value"), String(device));
      same(at + "batch", text("batch-value"), String(batch));
      same(at + "stage", text("stage-value"), stage);
      // The sentence.
      if (!one) {
        same(at + "answer", /^This stage needs groups/.test(text("answer")), true);
      } else if (!one.fits) {
        same(at + "answer", text("answer"), `Does not fit: ${one.reason}.`);
      } else {
        const bold = all("#answer b").map(e => e.textContent);
        reads(at + "step", bold[0], one.step_seconds);
        reads(at + "tokens", bold[1], one.tokens_per_second_per_device);
        reads(at + "MFU", bold[2], one.model_flops_utilization);
        same(at + "how", text("answer").slice(text("answer").indexOf(";")),
             `; ${one.replicas} \u00d7 ${one.shards} mesh, ${one.micro_steps} micro-step${
               one.micro_steps === 1 ? "" : "s"} of ${one.sequences}, recomputation: ${
               one.recompute}; ${one.reason}.`);
      }
      // The two charts: a total for each stage, and the parts in it.
      const keys = {memory: ["weights", "gradients", "optimizer", "slots", "staging", "activation"],
        sent: ["gather", "reduce_scatter", "all_reduce", "gather_replicas", "reduce_scatter_replicas",
               "all_reduce_replicas"]};
      for (const chart of ["memory", "sent"]) {
        const bytes = keys[chart].map(key => key + "_bytes");
        const totals = all(`#${chart} text[text-anchor=end]`).slice(-best.filter(c => c).length);
        const parts = all(`#${chart} title`).map(e => e.textContent);
        best.filter(c => c).forEach((c, i) =>
          reads(`${at}total of ${chart}, ${c.stage}`, totals[i].textContent, sum(c, bytes)));
        const largest = Math.max(...best.map(c => c ? sum(c, bytes) : 0));
        if (chart === "memory" && largest > 3 * answer.usable_bytes) continue;  // cut
        const wanted = best.filter(c => c).flatMap(c => bytes.map(key => c[key])).filter(x => x > 0);
        same(at + "parts of " + chart, parts.length, wanted.length);
        parts.forEach((part, i) => reads(`${at}part of ${chart}`, part.split(": ")[1], wanted[i]));
      }
      // The table.
      const rows = all("#numbers tr").slice(1);
      same(at + "rows", rows.length, stages.length);
      rows.forEach((row, i) => {
        const c = best[i], cells = [...row.children].map(e => e.textContent);
        same(at + "row", cells[0], stages[i]);
        if (!c) return;
        same(at + "row's mesh", cells[1], `${c.replicas} \u00d7 ${c.shards}`);
        same(at + "row's recomputation", cells[2], c.recompute);
        same(at + "row's batch", cells[3], `${c.sequences} \u00d7 ${c.micro_steps}`);
        reads(at + "row's memory", cells[4], c.device_bytes);
        if (!c.fits) return;
        reads(at + "row's step", cells[5], c.step_seconds);
        reads(at + "row's tokens", cells[6], c.tokens_per_second_per_device);
        reads(at + "row's MFU", cells[7], c.model_flops_utilization);
        same(at + "row's reason", cells[8], c.reason);
      });
      // The timeline: there if it fits; where all of the step is shown, its strips are as long as
      // the program says that communication is exposed.
      same(at + "timeline", all("#timeline svg").length, one && one.fits ? 1 : 0);
      if (one && one.fits && one.micro_steps <= 2) {
        const strips = all("#timeline .exposed title").map(e => seconds(e.textContent.split(": ")[1]));
        near(at + "exposed", strips.reduce((total, x) => total + x, 0), one.exposed_communication_seconds,
             0.003 * one.step_seconds);
      }
      for (const id of b === 2 ? ["memory", "sent", "timeline"] : []) {
        const boxes = all(`#${id} text`).map(e => e.getBoundingClientRect());
        boxes.forEach((box, i) => boxes.slice(0, i).forEach(other => {
          const apart = box.right <= other.left || other.right <= box.left ||
                        box.bottom <= other.top + 2 || other.bottom <= box.top + 2;
          if (!apart) wrong.push(`${at}texts of ${id} overlap`);
        }));
      }
    });
  }));

  // Nothing is loaded, nothing is wider than the window.
  same("resources", performance.getEntriesByType("resource").length, 0);
  same("page's width", document.documentElement.scrollWidth <= window.innerWidth, true);

  // Colours of a chart's areas differ for readers without red, green or blue cones. Source:
  // Machado et al., 2009 (matrices for severity 1); Ottosson, Oklab, 2020, where 0.02 is
  // just seen.
  const dim = [[[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]];
  const times = (m, v) => m.map(row => row.reduce((total, x, i) => total + x * v[i], 0));
  const linear = color => /(\d+), (\d+), (\d+)/.exec(color).slice(1).map(x =>
    x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
  const oklab = v => times([[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.808675766]], times([[0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]], v).map(Math.cbrt));
  for (const id of ["memory-legend", "sent-legend"]) {
    const colors = all(`#${id} i`).map(e => getComputedStyle(e).backgroundColor);
    for (const m of dim) {
      const seen = colors.map(color => oklab(times(m, linear(color)).map(x => Math.min(1, Math.max(0, x)))));
      seen.forEach((a, i) => seen.slice(0, i).forEach((b, k) => {
        ++figures;
        const apart = Math.hypot(...a.map((x, j) => x - b[j]));
        if (apart < 0.07) wrong.push(`${id}: ${colors[i]} and ${colors[k]} are ${apart.toFixed(3)} apart`);
      }));
    }
  }
  // Texts stand out from the paper: 4.5 to 1 (WCAG 2).
  const light = color => times([[0.2126, 0.7152, 0.0722]], linear(color))[0];
  const paper = light(getComputedStyle(document.body).backgroundColor);
  for (const selector of ["#conclusion", "#stage-meaning", "#memory text", "#timeline text.soft"]) {
    const style = getComputedStyle(all(selector)[0] || document.body);
    const ink = light(selector.includes(" text") ? style.fill : style.color);
    ++figures;
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (!(ratio >= 4.5)) wrong.push(`${selector}: its contrast is ${ratio.toFixed(1)}`);
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.title = `zero-page: ${dark ? "dark" : "light"}, ${figures} figures, ${wrong.length} wrong. ${
    wrong.slice(0, 8).join(". ")}`;
})();
