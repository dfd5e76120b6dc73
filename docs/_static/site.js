// Mends for readers with a keyboard or a screen reader that the theme lacks.
document.addEventListener("DOMContentLoaded", () => {
  // Captions of the side bar are headings without a level.
  document.querySelectorAll("[role=heading]:not([aria-level])").forEach((caption) => {
    caption.setAttribute("aria-level", "2");
  });
  const names = { ".sidebar-drawer": "All pages", ".toc-drawer": "On this page" };
  Object.entries(names).forEach(([selector, name]) => {
    document.querySelector(selector)?.setAttribute("aria-label", name);
  });
  // A block that scrolls has to be reached by the keyboard.
  const reach = () => {
    document.querySelectorAll("pre, .table-wrapper, .sidebar-scroll, .toc-scroll").forEach((block) => {
      if (block.scrollWidth > block.clientWidth || block.scrollHeight > block.clientHeight) block.tabIndex = 0;
    });
  };
  reach();
  window.addEventListener("resize", reach);
});
