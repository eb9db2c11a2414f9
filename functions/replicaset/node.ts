import { serveFunction } from 'levelhook/function/node';
import { createApp } from './app.ts';

await serveFunction(createApp, process.env);
