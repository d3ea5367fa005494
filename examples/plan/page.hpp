// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The answer as one page that needs nothing else: charts, a timeline, and sliders. Includes headers
// beside it.
#pragma once

#include <ostream>

#include "page_data.hpp"

namespace zero_plan {

namespace detail {

/// Colours can be told apart by colour-blind readers (see timeline_svg.hpp), and every area is
/// named in a legend or in its title as well.
inline constexpr const char* page_head = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>zero-plan</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1a1a; --soft: #666; --line: #ccc;
  --panel: #f5f5f5; --strong: #d55e00; --edge: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --ink: #e8e8e8; --soft: #a0a0a0; --line: #444; --panel: #22252b;
    --strong: #ff7a1a; --edge: #16181c; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.45 Helvetica, Arial, sans-serif;
  max-width: 1240px; margin: 0 auto; padding: 16px; }
h1 { font-size: 22px; margin: 0; } h2 { font-size: 15px; margin: 0 0 6px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
.controls { display: flex; flex-wrap: wrap; gap: 8px 28px; background: var(--panel);
  padding: 10px 14px; margin: 12px 0; border-radius: 6px; }
.controls label { flex: 1 1 240px; display: flex; flex-direction: column; }
.controls input { width: 100%; margin: auto 0 0; } .controls small { color: var(--soft); }
.two { display: flex; flex-wrap: wrap; gap: 20px; } .two > div { flex: 1 1 420px; min-width: 0; }
#timeline, .wide { overflow-x: auto; } #timeline svg { min-width: 760px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--ink); font-size: 12px;
  paint-order: stroke; stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round; }
svg text.soft { fill: var(--soft); } .legend { font-size: 13px; margin: 4px 0 12px; }
.legend span { white-space: nowrap; margin-right: 14px; }
.legend i { display: inline-block; width: 12px; height: 12px; margin-right: 5px;
  vertical-align: -1px; }
table { border-collapse: collapse; font-size: 13px; margin-top: 8px; }
td, th { white-space: nowrap; text-align: right; padding: 2px 10px; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left; }
td:last-child { white-space: normal; min-width: 260px; }
tr.chosen { font-weight: bold; }
@page { margin: 10mm; }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --line: #aaa; --panel: #fff;
  --strong: #d55e00; --edge: #fff; } .controls input { display: none; } body { max-width: none; padding: 0; zoom: 0.72; }
  #timeline, .wide { overflow: visible; } #timeline svg { min-width: 0; } svg text { font-size: 14px; }
  .two > div { flex-basis: 40%; } td, th { padding: 2px 6px; } .controls { padding: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
</style></head><body>
<h1 id="title"></h1><p id="conclusion"></p>
<div class="controls">
<label><span>Devices: <b id="devices-value"></b></span><input id="devices" type="range" min="0" step="1"></label>
<label><span>Stage: <b id="stage-value"></b></span><small id="stage-meaning"></small><input id="stage" type="range" min="0" step="1"></label>
<label><span>Sequences of a device in a step: <b id="batch-value"></b></span>
<input id="batch" type="range" min="0" step="1"></label></div>
<p id="answer"></p>
<div class="two"><div><h2>Memory of a device, by stage</h2><div id="memory"></div>
<div class="legend" id="memory-legend"></div></div>
<div><h2>Bytes that a device sends in a step, by stage</h2><div id="sent"></div>
<div class="legend" id="sent-legend"></div></div></div>
<h2 id="timeline-title"></h2><div id="timeline"></div><div class="legend" id="timeline-legend"></div>
<h2>All stages in numbers</h2><div class="wide"><table id="numbers"></table></div>
<script id="data" type="application/json">)page";

inline constexpr const char* page_tail = R"page(</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const escape = text => String(text).replace(/[&<>"]/g,
  c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
const gb = bytes => { const x = bytes / 1e9; return (x >= 100 ? x.toFixed(0) : x.toFixed(1)) + " GB"; };
const percent = x => (100 * x).toFixed(1) + " %";
const time = s => s === 0 ? "0" : s >= 1 ? s.toFixed(2) + " s" : (1000 * s).toFixed(s >= 0.1 ? 0 : 2) + " ms";
const memoryParts = [["weights_bytes", "weights", "#0072b2"], ["gradients_bytes", "gradients", "#009e73"],
  ["optimizer_bytes", "optimizer", "#56b4e9"], ["slots_bytes", "slots", "#e69f00"],
  ["staging_bytes", "staging", "#f0e442"], ["activation_bytes", "activations (estimate)", "#cc79a7"]];
const sentParts = ["gather", "reduce_scatter", "all_reduce", "gather_replicas", "reduce_scatter_replicas",
  "all_reduce_replicas"].map(key => { const op = data.ops.find(o => o.op === key); return [key + "_bytes", op.name, op.color]; });
const streams = ["compute", "gather", "reduce", "replicate"];
function state() { return {d: +at("devices").value, s: +at("stage").value, b: +at("batch").value}; }
function cell(d, s, b) { return data.cells[(d * data.stages.length + s) * data.batches.length + b]; }
function legend(id, parts) {
  at(id).innerHTML = parts.map(([, name, color]) =>
    `<span><i style="background:${color}"></i>${escape(name)}</span>`).join("");
}
function bars(id, parts, now, limit) {
  const w = 590, left = 104, right = 84, row = 30, h = data.stages.length * row + 26;
  const answers = data.stages.map((_, s) => { const c = cell(now.d, s, now.b); return c && c.answer; });
  const sum = a => a ? parts.reduce((t, [key]) => t + (a[key] || 0), 0) : 0;
  const largest = Math.max(...answers.map(sum), 1);
  // What is far too large is cut, so that the rest can be read.
  const most = limit ? Math.min(largest, 3 * limit) : largest;
  const scale = (w - left - right) / most;
  let out = "";
  let over = "";
  answers.forEach((a, s) => {
    const y = s * row + 4, chosen = s === now.s;
    out += `<text x="${left - 8}" y="${y + 16}" text-anchor="end" ${chosen ? 'font-weight="bold"' : ""}>${
      escape(data.stages[s].name)}</text>`;
    if (!a) { out += `<text class="soft" x="${left + 4}" y="${y + 16}">not on so many devices</text>`; return; }
    let x = left;
    for (const [key, name, color] of parts) {
      const wide = Math.min((a[key] || 0) * scale, w - right - x);
      if (wide <= 0) continue;
      out += `<rect x="${x.toFixed(1)}" y="${y}" width="${wide.toFixed(1)}" height="22" fill="${color}" stroke="var(--edge)" stroke-width="0.7"><title>${
        escape(name)}: ${gb(a[key])}</title></rect>`;
      x += wide;
    }
    const cut = sum(a) > most * 1.001 ? "\u2026 " : "";
    over += `<text x="${w - 6}" y="${y + 16}" text-anchor="end" ${
      limit && !a.fits ? 'style="fill:var(--strong)"' : ""}>${cut}${gb(sum(a))}</text>`;
    if (chosen) out += `<rect x="${left - 3}" y="${y - 3}" width="${w - left + 1}" height="28" fill="none" stroke="var(--soft)" stroke-dasharray="3 3"/>`;
  });
  if (limit && limit <= most) {
    const x = left + limit * scale;
    out += `<line x1="${x}" x2="${x}" y1="0" y2="${h - 20}" stroke="var(--ink)" stroke-width="2"/>
      <text x="${x}" y="${h - 6}" text-anchor="middle">usable: ${gb(limit)}</text>`;
  }
  at(id).innerHTML = `<svg viewBox="0 0 ${w} ${h}" role="img">${out}${over}</svg>`;
}
/** Where, from the end of the step before, the compute stream stands still while a collective moves
    data. A period later the next step does the same. */
function exposed({steps, from: first, period}) {
  const busy = [], moving = [], end = first + period;
  for (let i = 0; i < steps.length; i += 4) {
    const op = data.ops[steps[i]], kind = op.stream === 0 ? busy : op.moves ? moving : [];
    for (const later of [0, period]) kind.push([steps[i + 2] + later, Math.min(steps[i + 3] + later, end)]);
  }
  const merge = spans => spans.sort((a, b) => a[0] - b[0]).reduce((out, s) => {
    const last = out[out.length - 1];
    if (last && s[0] <= last[1]) last[1] = Math.max(last[1], s[1]); else out.push([...s]);
    return out; }, []);
  const computing = merge(busy), out = [];
  for (const [begin, end] of merge(moving.filter(s => s[0] < s[1]))) {
    let from = Math.max(begin, first);
    for (const [b, e] of computing) {
      if (e <= from || b >= end) continue;
      if (b > from) out.push([from, b]);
      from = Math.max(from, e);
    }
    if (from < end) out.push([from, end]);
  }
  return out;
}
function timeline(answer, line) {
  const w = 1210, left = 84, wide = w - left - 26, lane = 40, parts = 20000;
  const used = streams.map((_, s) => { for (let i = 0; i < line.steps.length; i += 4)
    if (data.ops[line.steps[i]].stream === s) return true; return false; });
  const y = []; let bottom = 6;
  streams.forEach((_, s) => { y[s] = bottom; if (used[s]) bottom += lane + 6; });
  const x = t => left + t * wide / parts;
  let out = "";
  streams.forEach((name, s) => { if (used[s]) out += `<rect x="${left}" y="${y[s]}" width="${wide}" height="${lane}" fill="var(--panel)"/>
    <text x="${left - 8}" y="${y[s] + 25}" text-anchor="end">${name}</text>`; });
  const unit = u => u === 0 ? "embedding" : u <= data.layers ? "block " + (u - 1) : "head";
  const seen = new Set();
  for (let i = 0; i < line.steps.length; i += 4) {
    const [op, u, begin, end] = line.steps.slice(i, i + 4), info = data.ops[op];
    seen.add(info);
    out += `<rect x="${x(begin).toFixed(2)}" y="${y[info.stream]}" width="${Math.max(x(end) - x(begin), 0.8).toFixed(2)}" height="${lane}" fill="${
      info.color}" stroke="var(--edge)" stroke-width="${x(end) - x(begin) > 3 ? 0.7 : 0}"><title>${info.name} ${
      info.op === "combine" ? "" : unit(u)}: ${time((end - begin) / parts * line.us / 1e6)}</title></rect>`;
  }
  for (const [begin, end] of exposed(line)) {
    const from = x(begin), to = Math.max(x(end), from + 1);
    out += `<rect class="exposed" x="${from.toFixed(2)}" y="${y[0]}" width="${(to - from).toFixed(2)}" height="${lane}" fill="var(--strong)"><title>exposed communication: ${
      time((end - begin) / parts * line.us / 1e6)}</title></rect>`;
  }
  // Memory over time, from what is always held up to the most that is.
  const states = answer.weights_bytes + answer.gradients_bytes + answer.optimizer_bytes;
  const top = bottom + 14, height = 110;
  const most = Math.max(data.usable, answer.device_bytes);
  const my = bytes => top + height - bytes * height / most;
  let path = `M${left},${my(states).toFixed(1)}`, level = states;
  for (let i = 0; i < line.memory.length; i += 2) {
    const px = x(line.memory[i]).toFixed(1);
    path += `L${px},${my(level).toFixed(1)}`;
    level = states + line.memory[i + 1] * 1e6;
    path += `L${px},${my(level).toFixed(1)}`;
  }
  path += `L${left + wide},${my(level).toFixed(1)}L${left + wide},${my(0)}L${left},${my(0)}Z`;
  out += `<path d="${path}" fill="#cc79a7" fill-opacity="0.75"/>
    <rect x="${left}" y="${my(states)}" width="${wide}" height="${my(0) - my(states)}" fill="#56b4e9"/>
    <line x1="${left}" x2="${left + wide}" y1="${my(data.usable)}" y2="${my(data.usable)}" stroke="var(--ink)" stroke-dasharray="5 4"/>
    <text x="${left - 8}" y="${my(data.usable) + 4}" text-anchor="end">${gb(data.usable)}</text>
    <text x="${left - 8}" y="${my(0)}" text-anchor="end">0</text>
    <text x="${left - 8}" y="${top + height / 2 + 10}" text-anchor="end">memory</text>`;
  if (line.from > 0) out += `<line x1="${x(line.from)}" x2="${x(line.from)}" y1="0" y2="${
    top + height}" stroke="var(--ink)" stroke-dasharray="2 2"/>`;
  const rough = line.us / 1e6 / 8, power = 10 ** Math.floor(Math.log10(rough));
  const tick = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
  const end = top + height;
  for (let t = 0; t * 1e6 <= line.us; t += tick) {
    const tx = x(t * 1e6 / line.us * parts);
    out += `<line x1="${tx}" x2="${tx}" y1="${end}" y2="${end + 5}" stroke="var(--soft)"/>
      <text class="soft" x="${tx}" y="${end + 18}" text-anchor="middle">${time(t)}</text>`;
  }
  at("timeline").innerHTML = `<svg viewBox="0 0 ${w} ${end + 24}" role="img">${out}</svg>`;
  legend("timeline-legend", [...seen].map(op => ["", op.name, op.color]).concat([
    ["", "exposed communication: compute waits", "var(--strong)"], ["", "memory always held", "#56b4e9"],
    ["", "whole units and activations while they are needed", "#cc79a7"]]));
}
function draw() {
  const now = state(), stage = data.stages[now.s], c = cell(now.d, now.s, now.b), a = c && c.answer;
  at("devices-value").textContent = data.devices[now.d];
  at("stage-value").textContent = stage.name;
  at("stage-meaning").textContent = stage.meaning;
  at("batch-value").textContent = data.batches[now.b];
  bars("memory", memoryParts, now, data.usable);
  bars("sent", sentParts, now, 0);
  at("answer").innerHTML = !a ? "This stage needs groups of devices that hold replicas; there are too few devices for two of them."
    : !a.fits ? `<b>Does not fit:</b> ${escape(a.reason)}.`
    : `<b>${time(a.step_seconds)}</b> a step, <b>${a.tokens_per_second_per_device.toFixed(0)}</b> tokens a second and device, MFU <b>${
      percent(a.model_flops_utilization)}</b>; ${a.replicas} \u00d7 ${a.shards} mesh, ${a.micro_steps} micro-step${
      a.micro_steps === 1 ? "" : "s"} of ${a.sequences}, recomputation: ${a.recompute}; ${escape(a.reason)}.`;
  if (c && c.timeline) {
    const some = c.timeline.micro_steps < a.micro_steps ? ` with ${c.timeline.micro_steps} of its ${a.micro_steps} micro-steps` : "";
    at("timeline-title").textContent = `One step${some}: streams as lanes, and memory below${
      c.timeline.from > 20 ? "; left of the dotted line the step before has not ended" : ""}`;
    timeline(a, c.timeline);
  } else { at("timeline-title").textContent = ""; at("timeline").innerHTML = at("timeline-legend").innerHTML = ""; }
  const rows = data.stages.map((s, i) => { const one = cell(now.d, i, now.b), r = one && one.answer;
    return `<tr ${i === now.s ? 'class="chosen"' : ""}><td>${escape(s.name)}</td>` + (r
      ? `<td>${r.replicas} \u00d7 ${r.shards}</td><td>${r.recompute}</td><td>${r.sequences} \u00d7 ${r.micro_steps}</td><td>${gb(r.device_bytes)}</td><td>${
        r.fits ? time(r.step_seconds) : "\u2013"}</td><td>${r.fits ? r.tokens_per_second_per_device.toFixed(0) : "\u2013"}</td><td>${
        r.fits ? percent(r.model_flops_utilization) : "\u2013"}</td><td>${escape(r.reason)}</td>`
      : '<td colspan="8">not on so many devices</td>') + "</tr>"; });
  at("numbers").innerHTML = "<tr><th>stage</th><th>mesh</th><th>recompute</th><th>batch</th><th>memory</th><th>step</th><th>tokens/s</th><th>MFU</th><th>why</th></tr>" + rows.join("");
}
at("title").textContent = `${data.model} on ${data.device}`;
document.title = at("title").textContent + " \u2013 zero-plan";
at("conclusion").textContent = `${data.parameters.toLocaleString("en")} parameters, sequences of ${data.context} tokens, ${data.bytes} bytes. On ${
  data.start.devices} devices: ${data.conclusion}`;
at("devices").max = data.devices.length - 1;
at("stage").max = data.stages.length - 1;
at("batch").max = data.batches.length - 1;
at("devices").value = data.devices.indexOf(data.start.devices);
at("stage").value = data.stages.findIndex(s => s.name === data.start.stage);
at("batch").value = Math.max(0, data.batches.indexOf(data.start.batch));
legend("memory-legend", memoryParts);
legend("sent-legend", sentParts);
for (const id of ["devices", "stage", "batch"]) at(id).addEventListener("input", draw);
draw();
</script></body></html>
)page";

}  // namespace detail

/// Writes the page. Nothing in it is loaded from elsewhere.
inline void print_page(std::ostream& out, const Options& options,
                       const zero::plan::Advice& advice) {
  out << detail::page_head;
  std::ostringstream data;
  print_page_data(data, options, advice);
  // A name in the data must not end the element that it stands in.
  for (const char c : data.str()) {
    if (c == '<') {
      out << "\\u003c";
    } else {
      out << c;
    }
  }
  out << detail::page_tail;
}

}  // namespace zero_plan
