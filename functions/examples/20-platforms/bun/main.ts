import { serveOnBun } from '@levelhook/function/bun';
import { copies } from '../copies.ts';

await serveOnBun(copies);
