import { serveController } from 'levelhook/function/node';
import { expiry } from './expiry.ts';

await serveController(expiry());
