import { serveOnDeno } from '@levelhook/function/deno';
import { copies } from '../copies.ts';

await serveOnDeno(copies);
