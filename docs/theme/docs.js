// The theme chosen on the page, else the system's; and where the site begins, for the search (search/main.js).
var base_url = document.currentScript.dataset.base;
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("leadline.theme");
  } catch {
    // a browser that keeps nothing: the system's theme
  }
  const dark = chosen === "light" || chosen === "dark" ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
// On a narrow screen the list of pages stands above the text, so it begins closed.
document.addEventListener("DOMContentLoaded", () => {
  if (!matchMedia("(max-width: 760px)").matches) return;
  for (const group of document.querySelectorAll("nav details")) group.open = false;
});
