import { createWorker } from '@levelhook/function/cloudflare-workers';
import { copies } from '../copies.ts';

export default createWorker(copies);
