let axis = "step";
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

function draw(figure, index) {
  const byTime = !figure.across && (axis === "time" || !figure.both), text = colour("text"), soft = colour("soft"), grid = colour("grid");
  const traces = figure.traces.filter(t => t.y.length).map(t => ({
    ...t, x: (axis === "time" && t.minutes) || (axis === "tokens" && t.tokens) || t.x,
    line: {...t.line, color: colour(t.colour)}, marker: {color: colour(t.colour), size: 6},
    fillcolor: t.stackgroup ? colour(t.colour) : undefined,
  }));
  const frame = {gridcolor: grid, zerolinecolor: grid, linecolor: grid, tickfont: {color: soft}, automargin: true};
  Plotly.react("plot" + index, traces, {
    margin: {l: 8, r: 8, t: 8, b: 8}, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {color: text, family: "system-ui, sans-serif", size: 12}, hovermode: "x unified",
    hoverlabel: {bgcolor: colour("card"), bordercolor: colour("edge"), font: {color: text}},
    showlegend: figure.traces.length > 1, legend: {orientation: "h", traceorder: "normal", y: 1.02, yanchor: "bottom", x: 0},
    xaxis: {...frame, title: {text: figure.across || (byTime ? "minutes since the start" : axis === "tokens" ? "million tokens generated" : "step"), font: {color: soft, size: 12}}},
    yaxis: {...frame, rangemode: "tozero", title: {text: figure.unit, font: {color: soft, size: 12}},
            ...(figure.percent ? {range: [0, 1], tickformat: ".0%"} : {})},
    shapes: byTime ? gaps.map(([x0, x1]) => ({type: "rect", x0, x1, yref: "paper", y0: 0, y1: 1, line: {width: 0},
                                              fillcolor: colour("quiet"), opacity: 0.25})) : [],
  }, {displayModeBar: false, responsive: true});
}
const drawAll = () => figures.forEach(draw);
document.querySelectorAll(".switch button").forEach(button => button.addEventListener("click", () => {
  axis = button.dataset.axis;
  document.querySelectorAll(".switch button").forEach(b => b.setAttribute("aria-pressed", b === button));
  drawAll();
}));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
