// Keeps the files that the page reads, so that it opens again without a network.
// Another export has another version, whose files replace these.
const FILES = {{files}};
const PREFIX = `${self.registration.scope} `;
const NAME = PREFIX + "{{version}}";

self.addEventListener("install", (event) => event.waitUntil((async () => {
  const kept = await caches.open(NAME);
  // Asks the server whether what the browser has is up to date.
  await kept.addAll(FILES.map((file) => new Request(file, { cache: "no-cache" })));
  await self.skipWaiting();
})()));

// Other folders of the same host have caches of their own.
self.addEventListener("activate", (event) => event.waitUntil((async () => {
  const old = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== NAME);
  await Promise.all(old.map((name) => caches.delete(name)));
})()));

self.addEventListener("fetch", (event) => event.respondWith((async () => {
  const kept = await caches.open(NAME);
  const address = event.request.url.replace(/\/index\.html(?=[?#]|$)/u, "/");
  return await kept.match(address, { ignoreSearch: true, ignoreVary: true }) ?? fetch(event.request);
})()));
