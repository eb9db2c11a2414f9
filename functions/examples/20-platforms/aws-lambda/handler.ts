import { createLambdaHandler } from '@levelhook/function/aws-lambda';
import { copies } from '../copies.ts';

export const handler = createLambdaHandler(copies);
