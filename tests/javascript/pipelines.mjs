// Pipelines and tokenizers of transformers.js. Reads the folder of the npm
// packages and the jobs from stdin, and prints their results, all as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname } from "node:path";

const { packages, jobs } = JSON.parse(readFileSync(0, "utf8"));
const { AutoTokenizer, env, pipeline } = createRequire(`${packages}/`)(
  "@huggingface/transformers",
);
env.allowRemoteModels = false;

const results = [];
for (const { task, folder, dtype, inputs } of jobs) {
  env.localModelPath = dirname(folder);
  if (task === "tokenize") {
    const tokenizer = await AutoTokenizer.from_pretrained(basename(folder));
    const options = { add_special_tokens: false };
    results.push(inputs.map((text) => tokenizer.encode(text, options)));
    continue;
  }
  const run = await pipeline(task, basename(folder), { dtype });
  const result = await run(...inputs);
  results.push(result.tolist ? result.tolist() : result);
  await run.dispose();
}
console.log(JSON.stringify(results));
