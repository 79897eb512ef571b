// Unpacks a file that is packed with Brotli, and makes it a program.
// node unpack.mjs FROM TO
import { createReadStream, createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

const [, , from, to] = process.argv;
await pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(to, { mode: 0o755 }));
