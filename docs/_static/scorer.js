// Ranking of the search: pages that say how to do a thing come before the reference, notes of the inside last.
// Sphinx puts this file in front of its search (`html_search_scorer`). A factor, so that the exact name of a function
// still finds the reference where a page only mentions the word.
var Scorer = {
  weights: [
    [/^(howto|tutorials)\/|^guide\/getting-started$/, 3],
    [/^(guide|concepts|from)\/|^(index|troubleshooting|glossary)$/, 2],
    [/^(design|conformance|protocol)\/|^(zre|zenoh)-|^architecture$/, 0.5],
  ],
  // Pages with the words in their title come before pages that have them in a heading or in the text.
  words: (new URLSearchParams(location.search).get("q") ?? "").trim().toLowerCase(),
  titled: 1.5,
  score: ([docname, title, anchor, , score]) => {
    const found = Scorer.weights.find(([pages]) => pages.test(docname));
    const titled = !anchor && title.toLowerCase().includes(Scorer.words);
    return score * (found ? found[1] : 1) * (titled ? Scorer.titled : 1);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
