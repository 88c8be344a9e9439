/* A page that is opened from a disk may not start workers, and the site's search is one: here it runs in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      url = new URL(url, location)
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      this.inside = this.frame.contentWindow
      const page = this.frame.contentDocument
      page.open()
      page.write("<body>")
      page.close()
      const run = script => new Promise((done, failed) => {
        const element = page.createElement("script")
        element.src = new URL(script, url)
        element.onload = done
        element.onerror = failed
        page.body.appendChild(element)
      })
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = (...scripts) =>
        scripts.reduce((before, next) => before.then(() => run(next)), Promise.resolve())
      this.ready = run(url)
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
