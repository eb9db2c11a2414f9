import { serveController } from '@levelhook/function/node';
import { copies } from '../copies.ts';

await serveController(copies);
