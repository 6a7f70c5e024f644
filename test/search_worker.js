// Runs the script of the site's search as its worker does: node search_worker.js SCRIPT, with an index and queries on
// standard input; the locations that each query finds, best first, as JSON.
const fs = require("fs");
const { index, queries } = JSON.parse(fs.readFileSync(0, "utf8"));
let answered = null;
globalThis.self = globalThis;
self.postMessage = (message) => answered && answered(message);
(0, eval)(fs.readFileSync(process.argv[2], "utf8"));
const ask = (message) =>
  new Promise((resolve) => {
    answered = resolve;
    self.onmessage({ data: message });
  });
(async () => {
  await ask({ type: 0, data: index });
  const found = [];
  for (const input of queries) {
    const answer = await ask({ type: 2, data: { input } });
    found.push(answer.data.items.map((item) => index.items[item.id].location));
  }
  console.log(JSON.stringify(found));
})();
