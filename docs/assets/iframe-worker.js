// Search in pages opened as files: a browser starts no worker from file:, so its script runs in a hidden frame instead.
// The frame and the page exchange messages as a worker and its page do.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage && this.onmessage({ data }));
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => this.waiting.splice(0).forEach((data) => this.postMessage(data));
      script.onerror = (event) => this.onerror && this.onerror(event);
      inside.document.head.append(script);
    }
    postMessage(data) {
      const inside = this.frame.contentWindow;
      if (!inside) return;
      if (!inside.onmessage) this.waiting.push(data);
      else setTimeout(() => inside.onmessage && inside.onmessage({ data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
