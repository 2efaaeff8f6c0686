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
document.addEventListener("DOMContentLoaded", () => {
  if (matchMedia("(max-width: 760px)").matches) {
    // The list of pages stands above the text there, so it begins closed.
    for (const group of document.querySelectorAll("nav details")) group.open = false;
  }
  for (const block of document.querySelectorAll("main pre")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0; // scrolled by keyboard
    const code = block.querySelector("code.language-sh, code.language-console");
    if (code && navigator.clipboard) block.append(copies(code));
  }
});

/** A button that copies a block: of a terminal's text the commands only. */
function copies(code) {
  const button = document.createElement("button");
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(typed(code.textContent.trimEnd()));
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 2000);
  });
  return button;
}

/** What is typed of a terminal's text: after `$ `, with lines that go on; all of it where no line has a prompt. */
function typed(text) {
  const commands = [];
  let open = false;
  for (const line of text.split("\n")) {
    if (open) commands.push(`${commands.pop()}\n${line}`);
    else if (line.startsWith("$ ")) commands.push(line.slice(2));
    else continue;
    const command = commands.at(-1);
    open = command.endsWith("\\") || command.split('"').length % 2 === 0;
  }
  return commands.length ? commands.join("\n") : text;
}
