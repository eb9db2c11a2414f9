import { serveController } from 'levelhook/function/node';
import { records } from './record.ts';

await serveController(records(process.env['RECORDS_URL'] ?? 'http://127.0.0.1:9090'));
