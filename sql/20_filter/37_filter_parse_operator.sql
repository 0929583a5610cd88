-- One $operator of one field -> tree, and how many nodes it counts as.
create or replace function pgq._filter_parse_operator(
    operator text, operand jsonb, options jsonb, scope text, path text[], at text, depth int,
    out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_type text := jsonb_typeof(operand);
    v_name text := substr(operator, 2);
    v_time constant boolean := scope = 'msg' and path[1] in ('published_at', 'expires_at');
begin
    nodes := case when operator in ('$eq', '$in', '$exists', '$type') then 1 else 3 end;
    if v_time and operator not in ('$eq', '$ne', '$in', '$nin', '$gt', '$gte', '$lt', '$lte',
            '$between', '$exists', '$isNull') then
        perform pgq._filter_error('timestamps cannot be tested with ' || left(operator, 64), at,
            'Timestamps support $eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $between, $exists and '
            '$isNull.');
    end if;
    case operator
        when '$eq', '$ne' then
            if v_type = 'object' and operand ? '$now' then
                tree := pgq._filter_range(scope, path,
                    jsonb_build_object('gte', operand, 'lte', operand), at);
            elsif v_type in ('array', 'object') and not v_time then
                nodes := 4 * greatest(pgq._filter_check_structure(operand, at), 1) - 1;
                tree := pgq._filter_node('eq', scope, path, operand);
            else
                tree := pgq._filter_membership(scope, path, jsonb_build_array(operand), at);
            end if;
            if operator = '$ne' then
                tree := pgq._filter_unless(scope, path, tree);
            end if;
        when '$in', '$nin' then
            perform pgq._filter_check_list(operand, true, at);
            nodes := nodes + pgq._filter_value_nodes(operand) - 1;
            tree := pgq._filter_membership(scope, path, operand, at);
            if operator = '$nin' then
                tree := pgq._filter_unless(scope, path, tree);
            end if;
        when '$gt', '$gte', '$lt', '$lte' then
            tree := pgq._filter_range(scope, path, jsonb_build_object(v_name, operand), at);
        when '$between' then
            if v_type <> 'array' or jsonb_array_length(operand) <> 2 then
                perform pgq._filter_error('$between takes two bounds', at,
                    'Write {"$between": [1, 10]}; both bounds are included.');
            end if;
            tree := pgq._filter_range(scope, path,
                jsonb_build_object('gte', operand -> 0, 'lte', operand -> 1), at);
        when '$like', '$ilike', '$prefix', '$suffix', '$substr', '$ieq', '$wildcard', '$topic' then
            perform pgq._filter_check_pattern(v_name, operand, at);
            tree := pgq._filter_node(v_name, scope, path, operand);
            nodes := 1 + (pgq._filter_patterns(array[tree])).nodes;
        when '$nlike' then
            perform pgq._filter_check_pattern('like', operand, at);
            tree := pgq._filter_node('like', scope, path, operand);
            nodes := 3 + (pgq._filter_patterns(array[tree])).nodes;
            tree := pgq._filter_unless(scope, path, tree);
        when '$regex' then
            if options is not null and options not in ('""', '"i"') then
                perform pgq._filter_error('unknown $options', at, 'The only option is "i".');
            end if;
            v_name := case when options = '"i"' then 'iregex' else 'regex' end;
            perform pgq._filter_check_pattern(v_name, operand, at);
            tree := pgq._filter_node(v_name, scope, path, operand);
            nodes := 1 + (pgq._filter_patterns(array[tree])).nodes;
        when '$exists', '$isNull' then
            if v_type <> 'boolean' then
                perform pgq._filter_error(operator || ' takes true or false', at,
                    format('Write {"%s": true} or {"%s": false}.', operator, operator));
            end if;
            tree := pgq._filter_node(
                case when operator = '$exists' and scope <> 'msg' then 'exists' else 'some' end,
                scope, path);
            if (operator = '$exists') <> operand::boolean then
                tree := pgq._filter_negate(tree);
            end if;
        when '$type' then
            if operand not in ('"string"', '"number"', '"boolean"', '"null"', '"array"',
                    '"object"') then
                perform pgq._filter_error('unknown type', at,
                    'The types are string, number, boolean, null, array and object.');
            end if;
            tree := pgq._filter_node('type', scope, path, operand);
        when '$all' then
            perform pgq._filter_check_list(operand, false, at);
            nodes := 3 * pgq._filter_check_structure(operand, at);
            tree := pgq._filter_node('all', scope, path, operand);
        when '$size' then
            if v_type <> 'number' or operand::numeric < 0
                    or operand::numeric <> trunc(operand::numeric) then
                perform pgq._filter_error('$size takes a whole number', at,
                    'Write {"$size": 2} for an array of two elements.');
            end if;
            tree := pgq._filter_node('size', scope, path, operand);
        when '$contains' then
            nodes := 4 * greatest(pgq._filter_check_structure(operand, at), 1) + 1;
            if v_type = 'null' then
                perform pgq._filter_error('$contains cannot look for null', at,
                    'Write {"key": null} or {"key": {"$isNull": true}}.');
            end if;
            tree := pgq._filter_node('contains', scope, path, operand);
        when '$mod' then
            if v_type <> 'array' or jsonb_array_length(operand) <> 2
                    or not jsonb_path_match(operand,
                        'strict $[0].type() == "number" && $[1].type() == "number"')
                    or (operand -> 0)::numeric = 0
                    or (operand -> 0)::numeric <> trunc((operand -> 0)::numeric)
                    or (operand -> 1)::numeric <> trunc((operand -> 1)::numeric) then
                perform pgq._filter_error('$mod takes a divisor and a remainder', at,
                    'Write {"$mod": [10, 3]}: two whole numbers, the first not 0.');
            end if;
            tree := pgq._filter_node('mod', scope, path, operand);
        when '$elemMatch' then
            if v_type <> 'object' then
                perform pgq._filter_error('$elemMatch takes an object', at,
                    'Write {"$elemMatch": {"$gt": 5}} or {"$elemMatch": {"sku": "a", "qty": 1}}.');
            end if;
            select pgq._filter_combine('and', array[t.tree, pgq._filter_policy(t.policy, 'item')]),
                t.nodes + 5
            into tree, nodes
            from pgq._filter_parse_test(operand, 'item', '{}', at, depth + 1) as t;
            tree := pgq._filter_node('elem', scope, path, tree);
        when '$options' then
            perform pgq._filter_error('$options belongs to $regex', at,
                'Write {"$regex": "^order", "$options": "i"}.');
        when '$now' then
            perform pgq._filter_error('$now is an operand', at,
                'Write {"msg.published_at": {"$gt": {"$now": "-1 hour"}}}.');
        when '$and', '$or', '$nor', '$not', '$const' then
            perform pgq._filter_error(operator || ' is no operator of a field', at,
                'Put it outside the field: {"$not": {"key": {"$gt": 5}}}.');
        else
            perform pgq._filter_error('unknown operator ' || left(operator, 64), at,
                'The operators are $eq $ne $in $nin $gt $gte $lt $lte $between $like $nlike $ilike '
                '$prefix $suffix $substr $ieq $wildcard $regex $topic $exists $isNull $type $all '
                '$size $elemMatch $contains $mod.');
    end case;
    if scope = 'msg' then
        nodes := nodes + 2;
    end if;
end
$$;
comment on function pgq._filter_parse_operator(text, jsonb, jsonb, text, text[], text, int) is
    'Validates one operator of a filter and gives its tree.';
