// The pieces of passages, as the web page of question answering finds them.
// Reads the folder of the npm packages, the page, the tokenizer's files and the
// passages from stdin, and prints id, start and end of each piece, all as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { packages, page, files, passages } = JSON.parse(readFileSync(0, "utf8"));
const { Tokenizer } = createRequire(`${packages}/`)("@huggingface/tokenizers");
const settings = files.map((path) => JSON.parse(readFileSync(path, "utf8")));
const tokenizer = new Tokenizer(...settings);
const special = { unk: tokenizer.token_to_id("<unk>") ?? tokenizer.token_to_id("[UNK]") };
const encode = (text) => tokenizer.encode(text, { add_special_tokens: false });
const [code] = readFileSync(page, "utf8").match(/ {2}function piecesOf[^]*?\n {2}\}\n/u);
const piecesOf = new Function("tokenizer", "encode", "special", `${code} return piecesOf;`);
const find = piecesOf(tokenizer, encode, special);
console.log(JSON.stringify(passages.map((text) => find(text).map(({ id, start, end }) => [id, start, end]))));
