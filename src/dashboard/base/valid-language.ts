/**
 * Replaces an invalid language of the browser, such as `en-US@posix` from a container's locale.
 * When uPlot is loaded, it formats numbers in the browser's language. An invalid language makes
 * this fail, and the page stays empty. Must be imported before uPlot.
 */
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
