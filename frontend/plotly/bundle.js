// The parts of plotly.js that figures of the console are made of; core brings scatter along. A timeline is bars.
const Plotly = require("plotly.js/lib/core");

Plotly.register([
  require("plotly.js/lib/bar"),
  require("plotly.js/lib/heatmap"),
  require("plotly.js/lib/histogram"),
  require("plotly.js/lib/pie"),
  require("plotly.js/lib/sankey"),
  require("plotly.js/lib/sunburst"),
  require("plotly.js/lib/treemap"),
]);

module.exports = Plotly;
