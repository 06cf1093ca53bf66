"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const charts = JSON.parse(document.getElementById("charts").textContent);
const PAGE = 20;
const byId = (id) => document.getElementById(id);
const element = (tag, text, className) => {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  return made;
};
const number = (value) => (value === null || value === undefined ? "–" : Number(value).toLocaleString("en"));
const time = (ms) => (ms === null || ms === undefined ? "–" : new Date(ms).toISOString().replace("T", " ").replace("Z", ""));
const duration = (ms) => {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 120000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200000) return `${(ms / 60000).toFixed(1)} min`;
  return `${(ms / 3600000).toFixed(1)} h`;
};
const show = (id, wanted) => { byId(id).hidden = !wanted; };

const MEANING = {
  clean: "Everything that was expected was read, understood and checked, and no rule is violated.",
  findings: "Rules are violated. Each finding names the records that show it.",
  incomplete: "No rule is violated, but something was missing, malformed or could not be decided.",
};

function head() {
  const title = byId("verdict");
  const many = counted(content.findings_total, "finding");
  title.textContent = content.verdict === "findings" ? many : content.verdict;
  title.className = content.verdict;
  document.title = `klamm audit: ${title.textContent}`;
  const ends = content.ends && ` The ends of logs were ${content.ends}.`;
  const provisional = content.provisional ? ` ${number(content.provisional)} of ${many} may be withdrawn by lines that were not read yet.` : "";
  byId("meaning").textContent = MEANING[content.verdict] + provisional + ends;
  const figures = [
    ["records", `${number(content.records)} of ${number(content.expected)}`],
    ["partitions", number(content.partitions_total)],
    ["runs of nodes", number(content.incarnations)],
    ["malformed lines", number(content.quarantined)],
    ["from", time(content.from_ms), "small"],
    ["until", time(content.until_ms), "small"],
  ];
  for (const [name, value, className] of figures) {
    const box = element("div");
    box.append(element("dt", name), element("dd", value, className));
    byId("figures").append(box);
  }
  show("incomplete-section", content.incomplete.length);
  for (const gap of content.incomplete) byId("incomplete").append(element("li", `${gap.what}: ${gap.why}`));
  show("notes-section", content.notes.length);
  for (const note of content.notes) byId("notes").append(element("li", note));
  show("open-section", content.open_conditions.length);
  table("open", content.open_conditions, [
    ["rule", (r) => r.rule], ["subject", (r) => r.subject], ["since", (r) => time(r.since_ms)], ["for", (r) => duration(r.until_now_ms), true], ["record", (r) => r.record],
  ]);
}

function table(id, rows, columns) {
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    for (const [, value, isNumber] of columns) line.append(element("td", value(row), isNumber ? "number" : ""));
    body.append(line);
  }
  const titles = element("tr");
  for (const [title, , isNumber] of columns) titles.append(element("th", title, isNumber ? "number" : ""));
  const top = element("thead");
  top.append(titles);
  byId(id).replaceChildren(top, body);
}

let limit = PAGE;
function fillFilters() {
  show("findings-section", content.findings_total);
  const options = (id, values) => {
    byId(id).append(new Option("all", ""));
    for (const [value, text] of values) byId(id).append(new Option(text, value));
  };
  options("rule", content.rules.map((rule) => [rule.rule, `${rule.rule} (${number(rule.count)})`]));
  options("severity", [...new Set(content.rules.map((rule) => rule.severity))].map((name) => [name, name]));
  for (const id of ["rule", "severity", "search"]) byId(id).addEventListener("input", () => { limit = PAGE; showFindings(); });
  byId("more").addEventListener("click", () => { limit += PAGE; showFindings(); });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
}

function matching() {
  const [rule, severity, text] = ["rule", "severity", "search"].map((id) => byId(id).value);
  const wanted = text.toLowerCase();
  return content.findings.filter((finding) =>
    (!rule || finding.rule === rule) && (!severity || finding.severity === severity) &&
    (!wanted || `${finding.subject} ${finding.message} ${finding.records.join(" ")}`.toLowerCase().includes(wanted)));
}

function showFindings() {
  const found = matching();
  byId("findings").replaceChildren(...found.slice(0, limit).map(findingItem));
  const hidden = content.findings_total - content.findings.length;
  byId("shown").textContent = `${number(Math.min(limit, found.length))} of ${number(found.length)}` +
    (hidden > 0 ? `; ${number(hidden)} more are in the table 'findings' only` : "");
  show("more", found.length > limit);
}

/** Without what stands below: the id of the topic, and the record. */
const subject = (finding) => finding.subject.replace(` (${finding.topic_id})`, "").replace(` record ${finding.records[0]}`, "");

/** A text in which names stand between backticks. */
function prose(text) {
  const line = element("div");
  text.split("`").forEach((part, n) => line.append(n % 2 ? element("code", part) : part));
  return line;
}

function findingItem(finding) {
  const item = element("li");
  const details = element("details");
  const line = element("summary");
  line.append(element("span", finding.severity, `tag ${finding.severity}`), element("b", finding.rule), finding.provisional ? " (provisional: lines not read yet may withdraw it) " : " ", `${subject(finding)}: ${finding.message}`);
  const evidence = element("div", null, "evidence");
  evidence.append(prose(`${finding.says} Look at ${finding.check_next}.`));
  if (finding.topic_id) evidence.append(prose(`topic id \`${finding.topic_id}\``));
  if (finding.at_ms !== null && finding.at_ms !== undefined) evidence.append(element("div", `at ${time(finding.at_ms)}`));
  for (const record of finding.records) {
    const entry = element("div");
    entry.append("record ", element("code", record));
    evidence.append(entry);
  }
  for (const cause of finding.causes) evidence.append(element("div", cause));
  if (finding.story.length) evidence.append(element("pre", finding.story.join("\n")));
  details.append(line, evidence);
  item.append(details);
  return item;
}

const until = (ms) => (ms === null || ms === undefined ? content.until_ms : ms);

/** A controller that was replaced did not say when it ended: behind its last record it was gone for some time, or all of it. */
function termRows(term) {
  const row = { node: `controller-${term.controller}`, details: `controller epoch ${term.controller_epoch}${term.ended ? `, ${term.ended}` : ""}` };
  const from = term.from_ms ?? term.last_ms, end = until(term.until_ms ?? term.last_ms);
  const last = term.ended === "replaced" ? Math.min(Math.max(term.last_ms ?? from, from), end) : end;
  const rows = [{ ...row, state: "active", from, until: last }];
  if (last < end) rows.push({ ...row, state: "nothing recorded", from: last, until: end });
  return rows;
}

function nodeRows() {
  const rows = content.terms.flatMap(termRows);
  for (const session of content.sessions) {
    const row = { node: `broker-${session.broker}`, details: `broker epoch ${session.broker_epoch ?? "unknown"}${session.ended ? `, ${session.ended}` : ""}` };
    const end = until(session.until_ms);
    const leaving = session.shutting_down_ms;
    rows.push({ ...row, state: "registered", from: session.from_ms, until: leaving ?? end });
    if (leaving !== null && leaving !== undefined) rows.push({ ...row, state: "shutting down", from: leaving, until: end });
  }
  const known = rows.filter((row) => row.from !== null && row.from !== undefined);
  for (const row of known) row.duration = duration(row.until - row.from);
  return known.sort((a, b) => a.node.localeCompare(b.node, "en", { numeric: true }) * (a.node[0] === b.node[0] ? 1 : -1));
}

function findingPoints(nodes) {
  const known = new Set(nodes.map((row) => row.node));
  const points = [];
  for (const finding of content.findings) {
    const node = (finding.records[0] ?? "").split("/")[0];
    if (finding.at_ms !== null && finding.at_ms !== undefined && known.has(node)) {
      points.push({ at: finding.at_ms, node, rule: finding.rule, where: finding.subject, message: finding.message });
    }
  }
  return points;
}

const failed = (failover) => {
  const brokers = failover.brokers ?? [];
  if (brokers.length) return `${brokers.length === 1 ? "broker" : "brokers"} ${brokers.join(", ")}`;
  if (failover.previous_controller !== null && failover.previous_controller !== undefined) return `controller-${failover.previous_controller}`;
  return "found by a new controller";
};
const movedOf = (failover) => (failover.partitions ? number(failover.partitions) : "none: a clean stop, or it led none");
const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

function failoverRows() {
  const rows = [];
  for (const failover of content.failovers) {
    const start = failover.detected_ms ?? failover.first_written_ms;
    if (start === null || start === undefined || !failover.partitions) continue;
    const at = time(start).slice(0, 19), partitions = counted(failover.partitions, "partition");
    const what = narrow.matches ? `${at.slice(11)} ${failed(failover)}` : `${at.slice(5)} ${failed(failover)}: ${partitions}`;
    const leaderless = `p50 ${duration(failover.leaderless_p50_ms)}, p99 ${duration(failover.leaderless_p99_ms)}`;
    const written = failover.last_written_ms, taken = failover.last_taken_ms, silent = failover.answered_ms === null || failover.answered_ms === undefined ? 0 : start - failover.answered_ms;
    if (silent > 0) rows.push({ what, at, partitions, phase: "not answering, not detected (session time-out)", start: -silent, end: 0, took: duration(silent), leaderless });
    if (written !== null && written !== undefined) {
      rows.push({ what, at, partitions, phase: "deciding and writing", start: 0, end: written - start, took: duration(written - start), leaderless });
      if (taken !== null && taken !== undefined) rows.push({ what, at, partitions, phase: "taking roles", start: written - start, end: Math.max(taken, written) - start, took: duration(Math.max(taken - written, 0)), leaderless });
    }
  }
  return rows;
}

function availabilityRows() {
  const rows = [];
  const { at_ms, leaderless, under_replicated } = content.curve;
  at_ms.forEach((at, n) => {
    // What comes later is drawn above the other.
    rows.push({ at, what: "under-replicated", partitions: under_replicated[n] }, { at, what: "without a leader", partitions: leaderless[n] });
  });
  return rows;
}

function partitionRows() {
  const text = byId("partition-search").value.toLowerCase();
  const found = content.partitions.filter((partition) => partition.name.toLowerCase().includes(text));
  const shown = found.slice(0, Number(byId("partition-count").value));
  byId("partitions-shown").textContent = `${number(shown.length)} of ${number(content.partitions_total)}, the worst first`;
  return shown.flatMap((partition) => partition.states.map(([from, end, leader, epoch, isr, replicas, unclean]) => ({
    partition: partition.name, from, until: end, leader: leader < 0 ? "none" : String(leader), epoch, isr: isr.join(", "),
    duration: duration(end - from), small: isr.length < replicas, unclean, election: unclean ? "unclean" : "",
  })));
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const narrow = window.matchMedia("(max-width: 640px)");
function theme() {
  const style = getComputedStyle(document.documentElement);
  const [ink, soft, line] = ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  return {
    background: "transparent", font: "system-ui, sans-serif", view: { stroke: null },
    axis: { labelColor: ink, titleColor: soft, gridColor: line, domainColor: line, tickColor: line },
    legend: { labelColor: ink, titleColor: soft },
  };
}

async function draw(id, datasets) {
  const rows = Object.values(datasets)[0];
  show(`${id}-section`, rows.length || id === "partitions");
  if (!rows.length) { byId(id).replaceChildren(); return; }
  const options = { actions: false, renderer: "svg", theme: dark.matches ? "dark" : undefined, config: theme(), tooltip: { theme: dark.matches ? "dark" : "light" } };
  await vegaEmbed(byId(id), { ...charts[id], datasets }, options);
}

async function drawAll() {
  const nodes = nodeRows();
  await draw("nodes", { nodes, findings: findingPoints(nodes) });
  await draw("availability", { availability: availabilityRows() });
  await draw("failovers", { failovers: failoverRows() });
  await drawPartitions();
  document.body.dataset.drawn = "yes";
}
const drawPartitions = () => draw("partitions", { partitions: partitionRows() });

const since = (later, earlier) => (later === null || earlier === null ? null : later - earlier);
function tables() {
  const listed = content.failovers.slice(0, 20), all = content.failovers_total;
  const slowest = all > listed.length ? `${number(all)} in all; the table has the ${listed.length} slowest` : `${number(all)} in all, the slowest first`;
  byId("failovers-hint").textContent = `${slowest}. 0 is the time at which the controller saw that brokers were gone. Before, until their sessions timed out, clients waited as well: since the last answer that a follower had.`;
  table("failover-table", listed, [
    ["detected", (f) => time(f.detected_ms)], ["failed", failed], ["gone for at most (since its last record)", (f) => duration(f.since_last_record_ms), true],
    ["since its last answer", (f) => duration(since(f.detected_ms, f.answered_ms ?? null)), true], ["clients waited up to", (f) => duration(f.waited_max_ms), true],
    ["partitions", movedOf, true], ["no leader after detection, p50", (f) => duration(f.leaderless_p50_ms), true], ["p95", (f) => duration(f.leaderless_p95_ms), true],
    ["p99", (f) => duration(f.leaderless_p99_ms), true], ["longest", (f) => duration(f.leaderless_max_ms), true], ["role not taken", (f) => number(f.not_taken), true],
  ]);
  const terms = content.terms.filter((t) => t.previous_controller !== null && t.from_ms !== null).slice(-20).reverse();
  show("terms-section", terms.length);
  table("terms", terms, [
    ["active", (t) => time(t.from_ms)], ["controller", (t) => `controller-${t.controller}`], ["epoch", (t) => number(t.controller_epoch), true],
    ["before", (t) => `controller-${t.previous_controller}`], ["since its last record", (t) => duration(since(t.from_ms, t.previous_last_ms)), true],
    ["since it saw it gone", (t) => duration(since(t.from_ms, t.vacant_ms ?? null)), true],
    ["loaded after", (t) => duration(since(t.loaded_ms, t.from_ms)), true], ["first write after", (t) => duration(since(t.first_write_ms, t.from_ms)), true],
  ]);
  show("logs-section", content.ledgers.length);
  table("ledgers", content.ledgers, [
    ["node", (l) => l.node], ["incarnation", (l) => l.incarnation], ["records", (l) => number(l.records), true], ["bytes", (l) => number(l.bytes), true],
    ["first", (l) => time(l.first_ms)], ["last", (l) => time(l.last_ms)], ["missing", (l) => number(l.missing), true], ["malformed", (l) => number(l.quarantined), true],
  ]);
}

head();
fillFilters();
showFindings();
tables();
for (const id of ["partition-search", "partition-count"]) byId(id).addEventListener("input", drawPartitions);
for (const query of [dark, narrow]) query.addEventListener("change", drawAll);
drawAll();
