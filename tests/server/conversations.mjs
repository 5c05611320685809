// OpenAI's own client for JavaScript, used as its documentation shows. Prints what it saw as JSON.
import OpenAI from "openai";

const [baseURL, apiKey, foreignKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const text = (item) => item.content[0].text;

const made = await client.conversations.create({
  metadata: { topic: "trip" },
  items: [{ type: "message", role: "user", content: "To Lyon!" }],
});
const kept = await client.conversations.retrieve(made.id);
const updated = await client.conversations.update(made.id, { metadata: { topic: "rail" } });
for (const start of [1, 16]) {
  const items = Array.from({ length: 15 }, (_, at) => ({ role: "user", content: String(start + at) }));
  await client.conversations.items.create(made.id, { items });
}
const newest = [];
for await (const item of client.conversations.items.list(made.id, { limit: 7 })) newest.push(text(item));
const oldest = [];
for await (const item of client.conversations.items.list(made.id, { order: "asc" })) oldest.push([item.id, text(item)]);
const one = await client.conversations.items.retrieve(oldest[0][0], { conversation_id: made.id });
await client.conversations.items.delete(oldest[1][0], { conversation_id: made.id });
const left = await client.conversations.items.list(made.id, { limit: 100 });

const refused = [];
const stranger = new OpenAI({ baseURL, apiKey: foreignKey, maxRetries: 0 });
for (const attempt of [
  () => stranger.conversations.retrieve(made.id),
  () => stranger.conversations.items.list(made.id),
  () => stranger.conversations.items.create(made.id, { items: [{ role: "user", content: "x" }] }),
  () => stranger.conversations.delete(made.id),
]) {
  await attempt().then(
    () => refused.push(null),
    (error) => refused.push(error.status),
  );
}
const deleted = await client.conversations.delete(made.id);
const gone = await client.conversations.retrieve(made.id).then(
  () => null,
  (error) => error instanceof OpenAI.NotFoundError,
);
console.log(
  JSON.stringify({
    id: made.id,
    topics: [made.metadata.topic, kept.metadata.topic, updated.metadata.topic],
    newest,
    oldest: oldest.map(([, each]) => each),
    one: text(one),
    left: left.data.length,
    more: left.has_more,
    refused,
    deleted: deleted.deleted,
    gone,
  }),
);
