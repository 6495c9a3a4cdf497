// Saves a chart as an image, in the theme and with the zoom in which it is shown.
(() => {
  "use strict";
  const WIDTH = 1000;
  const HEIGHT = 460;
  const SCALE = 2;

  function layoutOf(figure, plot, title) {
    const layout = { ...figure.layout, width: WIDTH, height: HEIGHT, autosize: false };
    const range = plot.layout.xaxis?.range;
    if (range) layout.xaxis = { ...layout.xaxis, range: [...range] };
    const look = window.allotment.resolveFigure({ ground: "var(--card)", ink: "var(--ink)" });
    const unit = figure.layout.meta.unit ? ` (${figure.layout.meta.unit})` : "";
    return {
      ...layout,
      paper_bgcolor: look.ground,
      margin: { l: 60, r: 24, t: 84, b: 52 },
      title: { text: `${title}${unit}`, x: 0.02, xanchor: "left", y: 0.96, font: { size: 17, color: look.ink } },
    };
  }

  // The SVG is drawn on a canvas here, because plotly's own conversion needs blob: images, which the page's
  // content security policy forbids.
  async function draw(svg) {
    const image = new Image(WIDTH * SCALE, HEIGHT * SCALE);
    image.src = svg;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = WIDTH * SCALE;
    canvas.height = HEIGHT * SCALE;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  window.allotment.saveChart = async (raw, plot, key, title) => {
    const figure = window.allotment.resolveFigure(raw);
    const shown = { data: figure.data, layout: layoutOf(figure, plot, title) };
    const svg = await Plotly.toImage(shown, { format: "svg", width: WIDTH, height: HEIGHT });
    const day = String((plot.layout.xaxis?.range || ["", ""])[1]).slice(0, 10);
    save(await draw(svg), `${key}${day ? `-${day}` : ""}.png`);
  };
})();
