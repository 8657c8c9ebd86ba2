/**
 * Replaces an invalid language of the browser, such as `en-US@posix` from a container's locale.
 * uPlot formats numbers in the browser's language as soon as it is loaded, which would fail and
 * leave the page empty. Must be imported before uPlot.
 */
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
