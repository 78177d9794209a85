// Draws the counts that stand in a page, with uPlot. Without it the page has them as a table.
(() => {
  "use strict";
  const dashes = [[], [6, 3], [2, 3]];
  const drawn = [];
  // A value between two gaps has no line: it is drawn as a point.
  const alone = (all) => all.flatMap((v, i) => (v != null && all[i - 1] == null && all[i + 1] == null ? [i] : []));
  // The clock of the reader, in 24 hours; the day where it changes.
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });
  const hours = (_, at) => at.map((s, i) => {
    const date = new Date(s * 1000), before = new Date((at[i - 1] ?? s) * 1000);
    return clock.format(date) + (i > 0 && date.getDate() !== before.getDate() ? "\n" + day.format(date) : "");
  });
  // Averages of milliseconds would be a flat line below a scale for counts.
  const whole = (values) => values.flat().every((v) => Number.isInteger(v ?? 0));
  const draw = (element) => {
    const { series, at, values } = JSON.parse(document.getElementById("plot-" + element.dataset.plot).textContent);
    if (!at || at.length === 0) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui" };
    element.replaceChildren();
    const plot = new uPlot({
      width: element.clientWidth, height: 200,
      cursor: { y: false }, legend: { live: true },
      scales: { y: { range: (u, _, most) => [0, Math.max(most * 1.1, whole(u.data.slice(1)) ? 4 : 0.01)] } },
      axes: [{ ...axis, values: hours }, { ...axis, size: 46 }],
      series: [{}, ...series.map((label, i) => ({ label, stroke: colour("--chart-" + i), width: 2, dash: dashes[i], points: { show: true, size: 6, fill: colour("--chart-" + i), filter: (u, s) => alone(u.data[s]) } }))],
    }, [at, ...values], element);
    drawn.push({ plot, element });
  };
  const all = () => {
    while (drawn.length) drawn.pop().plot.destroy();
    document.querySelectorAll("[data-plot]").forEach(draw);
  };
  // What is newer, while the page is seen. The table has what the page came with.
  const renew = async () => {
    const source = document.querySelector("[data-charts]")?.dataset.charts;
    if (!source || document.hidden) return;
    const answer = await fetch(source, { headers: { "HX-Request": "true" } });
    if (answer.status !== 200) return;
    const newer = await answer.json();
    for (const { plot, element } of drawn) {
      const one = newer[element.dataset.plot];
      if (!one) continue;
      document.getElementById("plot-" + element.dataset.plot).textContent = JSON.stringify(one);
      plot.setData([one.at, ...one.values]);
    }
  };
  setInterval(() => renew().catch(() => {}), 15000); // the page's own updates say when nothing answers
  document.addEventListener("DOMContentLoaded", all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  addEventListener("resize", () => drawn.forEach(({ plot, element }) => plot.setSize({ width: element.clientWidth, height: 200 })));
})();
