// The explorer in a notebook: its page in a frame, whose questions are messages to Python.
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "explorer of layouts";
  frame.style.cssText = "width: 100%; height: 48rem; border: 1px solid #d0d0d0;";
  frame.sandbox = "allow-scripts";
  frame.srcdoc = model.get("page");
  const asked = (event) => {
    if (event.source === frame.contentWindow) model.send(event.data);
  };
  const answered = (reply) => frame.contentWindow?.postMessage(reply, "*");
  window.addEventListener("message", asked);
  model.on("msg:custom", answered);
  el.append(frame);
  return () => {
    window.removeEventListener("message", asked);
    model.off("msg:custom", answered);
  };
}

export default { render };
