import { describe, expect, it } from 'vitest';
import { resource } from '../../../core/index.ts';
import type { AdmissionDescription, ConversionDescription } from '../../../contract/index.ts';
import { checkReview } from './declared-review.ts';

const deployment = { apiVersion: 'apps/v1', kind: 'Deployment' };
const admission: AdmissionDescription = {
  ...deployment,
  type: 'validating',
  name: 'checks',
  operations: ['CREATE', 'UPDATE'],
};
const conversion: ConversionDescription = { ...deployment, type: 'conversion', name: 'turns', versions: ['v1', 'v2'] };
const served = resource('apps/v1', 'Deployment');

/** A write of a Deployment in v1beta1, while the rules name v1. */
const request = {
  uid: 'u1',
  kind: { group: 'apps', version: 'v1', kind: 'Deployment' },
  requestKind: { group: 'apps', version: 'v1beta1', kind: 'Deployment' },
  resource: { group: 'apps', version: 'v1', resource: 'deployments' },
  requestResource: { group: 'apps', version: 'v1beta1', resource: 'deployments' },
  namespace: 'shop',
  operation: 'UPDATE',
};
const conversionRequest = {
  uid: 'u2',
  desiredAPIVersion: 'apps/v2',
  objects: [{ apiVersion: 'apps/v1', kind: 'Deployment' }],
};

function check(changes: object, description: Partial<AdmissionDescription> = {}): string {
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: { ...request, ...changes } };
  return checkReview(JSON.stringify(review), { webhook: { ...admission, ...description }, resource: served });
}

function checkConversion(changes: object): string {
  const made = { ...conversionRequest, ...changes };
  const review = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview', request: made };
  return checkReview(JSON.stringify(review), { webhook: conversion, resource: served });
}

const scale = { subResource: 'scale', kind: { group: 'autoscaling', version: 'v1', kind: 'Scale' } };

describe('a review that the webhook declares', () => {
  it('gives the UID, whatever version was written', () => expect(check({})).toBe('u1'));
  it('is of the named namespaces', () => expect(check({}, { namespaces: ['shop'] })).toBe('u1'));
  it('is of a subresource with another kind', () => expect(check(scale, { subresources: ['scale'] })).toBe('u1'));
  it('converts between the named versions', () => expect(checkConversion({})).toBe('u2'));
});

describe('a review that the webhook does not declare', () => {
  it.each<[object, Partial<AdmissionDescription>, string]>([
    [{ resource: { ...request.resource, version: 'v1beta1' } }, {}, 'it declares apps/v1/Deployment'],
    [{ resource: { ...request.resource, group: 'evil.dev' } }, {}, 'it declares apps/v1/Deployment'],
    [{ kind: { ...request.kind, kind: 'Other' } }, {}, 'it declares apps/v1/Deployment'],
    [{ operation: 'DELETE' }, {}, 'it does not declare the operation DELETE'],
    [scale, {}, 'it does not declare the subresource scale'],
    [scale, { subresources: ['status'] }, 'it does not declare the subresource scale'],
    [{}, { subresources: ['status'] }, 'it declares subresources only'],
    [{}, { namespaces: ['other'] }, 'it does not declare the namespace shop'],
    [{ namespace: undefined }, { namespaces: ['other'] }, 'it declares namespaces'],
    [{ namespace: '' }, { namespaces: ['other'] }, 'it declares namespaces'],
  ])('%j with %j is refused', (changes, description, message) => {
    expect(() => check(changes, description)).toThrow(message);
  });

  it.each<[object, string]>([
    [{ desiredAPIVersion: 'apps/v3' }, 'it does not declare apps/v3'],
    [{ desiredAPIVersion: 'v1' }, 'it does not declare v1'],
    [{ objects: [...conversionRequest.objects, { apiVersion: 'apps/v9', kind: 'Deployment' }] }, 'apps/v9'],
    [{ objects: [{ apiVersion: 'apps/v1', kind: 'Other' }] }, 'it does not declare Other'],
    [{ objects: [{ apiVersion: 'apps/v1' }] }, 'lacks a part of its request'],
    [{ objects: [null] }, 'lacks a part of its request'],
    [{ objects: undefined }, 'lacks a part of its request'],
  ])('a conversion with %j is refused', (changes, message) => {
    expect(() => checkConversion(changes)).toThrow(message);
  });
});
