// A user's program with the types that openapi-typescript makes: it submits a job and prints its id, its state as a read
// shows it, and the code of a problem.
import createClient from 'openapi-fetch';
import type { paths } from './api.d.ts';

const client = createClient<paths>({
  baseUrl: process.env.FORGEQUEUE_URL!,
  headers: { Authorization: `Bearer ${process.env.FORGEQUEUE_API_KEY}` },
});
const submitted = await client.POST('/v1/jobs', { body: { type: 'hash.sha256', payload: { text: 'hello' } } });
if (!submitted.data) throw new Error(submitted.error.code);
const job = await client.GET('/v1/jobs/{id}', { params: { path: { id: submitted.data.id } } });
if (!job.data) throw new Error(job.error.code);
const refused = await client.POST('/v1/jobs', { body: { type: 'not a type' } });
if (!refused.error) throw new Error('accepted');
console.log(job.data.id, job.data.state, refused.error.code);
