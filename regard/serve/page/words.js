// Where words stand in a text, and in which of them two texts differ.

// The [start, end] of each word, or null where the text does not have them: a tokenizer may write words otherwise.
export function placesOf(words, text) {
  const spaced = Array.from(text.matchAll(/\S+/g), (match) => [match.index, match.index + match[0].length]);
  if (spaced.length === words.length) return spaced;
  const places = [];
  let from = 0;
  for (const word of words) {
    const start = text.indexOf(word, from);
    if (start < 0) return null;
    from = start + word.length;
    places.push([start, from]);
  }
  return places;
}

// For each word of the second text whether it is missing from the longest common sequence of words.
export function differing(first, second) {
  const n = first.length, m = second.length;
  const common = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      common[i][j] = first[i] === second[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const differs = Array(m).fill(true);
  for (let i = 0, j = 0; i < n && j < m;) {
    if (first[i] === second[j]) { differs[j] = false; i++; j++; } else if (common[i + 1][j] >= common[i][j + 1]) i++; else j++;
  }
  return differs;
}
