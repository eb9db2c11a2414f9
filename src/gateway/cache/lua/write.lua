-- Sets fields of a view's HASH, as its writer.
--
-- KEYS[1] view    HASH
-- KEYS[2] objects HASH  '' -> '1' while the view may be read
-- ARGV[1] ID of the writer: refused when the view has another ID or none
-- ARGV[2] a field to count up by one, or ''
-- then    two each: field, value; the field `rewound` ends the time in which the view may be read
--
-- Answer: 1, or -1 when the view has another writer and nothing was done.

if redis.call('HGET', KEYS[1], 'writerId') ~= ARGV[1] then
  return -1
end
if ARGV[2] ~= '' then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
end
if #ARGV > 2 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 3))
end
for at = 3, #ARGV, 2 do
  if ARGV[at] == 'rewound' then
    redis.call('HDEL', KEYS[2], '')
  end
end
return 1
