import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import {
  CONTRACT_VERSION,
  type Description,
  importSecret,
  LEVELHOOK_HEADER,
  type OutcomeBody,
  type ReviewRequest,
  verify,
} from '../../src/contract/index.ts';
import { decodeReviewRequest, isReviewRequest } from '../../src/contract/webhook.ts';
import { LoopbackServer } from './loopback-server.ts';

/** What a test looks at in an AdmissionReview. */
export interface AdmissionReviewRequest {
  readonly uid: string;
  readonly operation: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly subResource?: string;
  readonly dryRun?: boolean;
  readonly kind: { readonly kind: string };
  readonly object?: {
    readonly metadata?: { readonly name?: string };
    readonly data?: Readonly<Record<string, string>>;
  };
}

/** A review as it arrived. */
export interface ArrivedReview extends Omit<ReviewRequest, 'review'> {
  readonly request: AdmissionReviewRequest;
  readonly review: ReviewRequest['review'];
}

/** What a function may do with a review. */
export type ReviewBehaviour = (review: ArrivedReview, response: ServerResponse) => void;

/** The answer of a function: `response` is completed with the UID. */
export function answerWith(response: object): ReviewBehaviour {
  return ({ request, review }, outgoing) => {
    const { apiVersion, kind } = review;
    outgoing.setHeader(LEVELHOOK_HEADER, CONTRACT_VERSION);
    outgoing.end(JSON.stringify({ apiVersion, kind, response: { uid: request.uid, ...response } }));
  };
}

export const allow = answerWith({ allowed: true });

export function refuse(message: string): ReviewBehaviour {
  return answerWith({ allowed: false, status: { message } });
}

/**
 * A function without the SDK that answers reviews as a test tells it to. It verifies what it gets, so a request that
 * the gateway has not signed is none.
 */
export class ReviewFunction extends LoopbackServer {
  readonly reviews: ArrivedReview[] = [];
  behaviour: ReviewBehaviour = allow;
  readonly #description: Description;
  readonly #secret: string;

  constructor(description: Pick<Description, 'name' | 'for' | 'webhooks'> & Partial<Description>, secret: string) {
    super(createServer());
    this.answerBy((request, response) => this.#answer(request, response));
    this.#secret = secret;
    this.#description = {
      version: CONTRACT_VERSION,
      owns: [],
      watches: [],
      reads: [],
      indexes: [],
      concurrency: 1,
      timeoutSeconds: 5,
      ...description,
    };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const headers = new Headers(request.headers as Record<string, string>);
    await verify([await importSecret(this.#secret)], { headers, nowMs: Date.now(), body });
    response.setHeader('content-type', 'application/json');
    if (request.method === 'GET') return void response.end(JSON.stringify(this.#description));
    const value: unknown = JSON.parse(body);
    if (!isReviewRequest(value)) {
      const done: OutcomeBody = { version: CONTRACT_VERSION, results: [{ status: 'done' }] };
      return void response.end(JSON.stringify(done));
    }
    const { review, ...rest } = decodeReviewRequest(value);
    const arrived = { ...rest, review, request: review.request as AdmissionReviewRequest };
    this.reviews.push(arrived);
    this.behaviour(arrived, response);
  }
}
